"""Vocabularies of all formats give the same names, and labels are found by URI, label and notation."""

import gzip
import sys
import tracemalloc

import pytest

from tests.packing import PACK
from xmlgp.data.file_kinds import format_ending
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary

PREFIX = "http://ex.org/"

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://ex.org/1> a skos:Concept ; skos:prefLabel "cats"@en, "kissat"@fi ; skos:notation "599.75" .
<http://ex.org/2> skos:prefLabel "big\\n dogs"@en .
<http://ex.org/3> skos:prefLabel "melu"@fi ; skos:altLabel "din"@en .
<http://ex.org/4> skos:notation "4" .
"""

TRIPLES = """<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "cats"@en .
<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "kissat"@fi .
<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#notation> "599.75" .
<http://ex.org/2> <http://www.w3.org/2004/02/skos/core#prefLabel> "big dogs"@en .
<http://ex.org/3> <http://www.w3.org/2004/02/skos/core#prefLabel> "melu"@fi .
"""

XML = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://ex.org/1"><s:prefLabel xml:lang="en">cats</s:prefLabel>
<s:prefLabel xml:lang="fi">kissat</s:prefLabel><s:notation>599.75</s:notation></s:Concept>
<s:Concept rdf:about="http://ex.org/2"><s:prefLabel xml:lang="en">big dogs</s:prefLabel></s:Concept>
<s:Concept rdf:about="http://ex.org/3"><s:prefLabel xml:lang="fi">melu</s:prefLabel></s:Concept>
</rdf:RDF>
"""

CSV = """uri,notation,label_en,label_fi
http://ex.org/1,599.75,cats,kissat
http://ex.org/2,,big  dogs,
http://ex.org/3,,,melu
"""

TSV = "<http://ex.org/1>\tcats\t599.75\n\n<http://ex.org/2>\tbig dogs\n<http://ex.org/3>\tmelu\r\n"

CATS, DOGS, NOISE = (f"{PREFIX}1", "cats"), (f"{PREFIX}2", "big dogs"), (f"{PREFIX}3", "melu")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.ttl", TURTLE), ("a.nt", TRIPLES), ("a.rdf", XML), ("a.xml", XML), ("a.csv", CSV), ("a.tsv", TSV), ("a", TSV)],
)
def test_all_formats_have_the_same_concepts(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    found = read_vocabulary(tmp_path / name)
    expected = {own: concept for concept in (CATS, DOGS, NOISE) for own in concept} | {"599.75": CATS}
    if content is not TSV:
        expected["kissat"] = CATS
        assert found.languages == ["en", "fi"]
        finnish = read_vocabulary(tmp_path / name, "fi").concepts
        assert finnish["cats"] == finnish[f"{PREFIX}1"] == (f"{PREFIX}1", "kissat")
        assert finnish["big dogs"] == DOGS
    assert found.concepts == expected
    assert read_vocabulary(tmp_path / f"{name}.gz").concepts == expected


def test_the_language_is_english_or_that_of_most_labels(tmp_path):
    for header, expected in ("label_sv,label_en", ["en", "sv"]), ("label_sv,label_fi", ["fi", "sv"]), ("label", [""]):
        names = ",".join("x" for _ in header.split(",")[1:])
        (tmp_path / "a.csv").write_text(f"uri,{header}\nu:1,{',' * bool(names)}b\nu:2,a{',' * bool(names)}{names}\n")
        assert read_vocabulary(tmp_path / "a.csv").languages == expected


def test_a_name_of_several_concepts_is_that_of_none(tmp_path):
    (tmp_path / "a").write_text("<u:1>\tbank\n<u:2>\tbank\n<u:3>\tu:1\tbank\n")
    found = read_vocabulary(tmp_path / "a").concepts
    assert found == {"u:1": ("u:1", "bank"), "u:2": ("u:2", "bank"), "u:3": ("u:3", "u:1")}


def test_labels_keep_their_names_and_get_others(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    names, notes = Names([f"{PREFIX}3", "kissat", "other", f"{PREFIX}9"]), []
    found = name_labels(names, read_vocabulary(tmp_path / "a.csv"), notes.append)
    assert found.labels == names.labels
    assert found.uris == [f"{PREFIX}3", f"{PREFIX}1", "", f"{PREFIX}9"]
    assert found.shown == found.preferred == ["melu", "cats", "other", f"{PREFIX}9"]
    assert notes == [f"{tmp_path}/a.csv: preferred labels of 2 of 4 labels, in 'en' (there is also 'fi')"]
    # Later labels follow, another vocabulary replaces what it knows.
    more = names._replace(labels=[*names.labels, "big dogs"])
    assert name_labels(more, earlier=found).preferred == [*found.preferred, "big dogs"]
    (tmp_path / "b").write_text("<u:9>\tother\n")
    other = name_labels(more, read_vocabulary(tmp_path / "b"), earlier=found)
    assert other.uris == [*found.uris[:2], "u:9", found.uris[3], ""]
    assert name_labels(names) is names
    assert name_labels(Names(), earlier=found) == Names()
    with pytest.raises(SettingsError, match="the labels have no names"):
        name_labels(Names(), read_vocabulary(tmp_path / "b"))


@pytest.mark.parametrize(
    ("name", "content", "error", "reason"),
    [
        ("a", "<u:1>\tcats\nu 2\tdogs\n", DataFormatError, "a:2: the line must be `<URI><TAB>label`, unless "),
        ("a", "<u:1> cats\n", DataFormatError, "a:1: the line must be `<URI><TAB>label`, unless the first line is a"),
        ("a", "cats\n", DataFormatError, "a:1: the line must be `<URI><TAB>label`, unless the first line is a header"),
        ("a", "# vocabulary\n<u:1>\tcats\n", DataFormatError, "a:1: the line must be `<URI><TAB>label`, unless the"),
        ("a", "uri\tname\n", DataFormatError, "a:1: a vocabulary needs the columns uri and label or label_LANGUAGE, n"),
        ("a", "<u:1>\n", XmlgpError, "a: there are no concepts with preferred labels"),
        ("a", "", XmlgpError, "a: there are no concepts with preferred labels"),
        ("a.csv", "id,label\n", DataFormatError, "a.csv:1: a vocabulary needs the columns uri and label"),
        ("a", "\n\nuri;label\n\nu:1\n", DataFormatError, "a:5: this row has 1 field, but the header has 2"),
        ("a.csv", "uri,label\nu:1\n", DataFormatError, "a.csv:2: this row has 1 field, but the header has 2"),
        ("a.ttl", "<u:1> <u:2>\n", XmlgpError, "a.ttl: this is not SKOS in turtle: "),
        ("a.nt", "text\n", XmlgpError, "a.nt: this is not SKOS in nt: "),
        (
            "a.rdf",
            '<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><r>&b;</r>',
            XmlgpError,
            "a.rdf: this XML has entities that refer to others",
        ),
        *[
            (
                "a.rdf",
                f"<!DOCTYPE r [<!ENTITY {entity}>]>{XML}",
                XmlgpError,
                "a.rdf: this XML has entities that refer to",
            )
            for entity in ('a SYSTEM "file:///etc/passwd"', '% a  PUBLIC "a" "file:///etc/passwd"')
        ],
        ("a.rdf", "<rdf", XmlgpError, "a.rdf: this is not SKOS in xml: "),
        ("a.rdf", "\xff", XmlgpError, "a.rdf: this is not SKOS in xml: "),
        ("a.nt", TRIPLES.replace("pref", "alt"), XmlgpError, "a.nt: there are no concepts with preferred labels"),
    ],
)
def test_a_malformed_vocabulary_is_refused(tmp_path, name, content, error, reason):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(error) as caught:
        read_vocabulary(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{reason}")
    assert "\n" not in str(caught.value)


UNFIT_URIS = [
    *[
        (name, (content % f"http://e/a{control}b").encode(), f"the URI 'http://e/a{escaped}b' has {code}, ")
        for control, escaped, code in [
            ("\0", r"\x00", "U+0000"),
            ("\v", r"\x0b", "U+000B"),
            ("\f", r"\x0c", "U+000C"),
            ("\r", r"\r", "U+000D"),
            ("\x1b", r"\x1b", "U+001B"),
            ("\x1e", r"\x1e", "U+001E"),
            ("\x7f", r"\x7f", "U+007F"),
            ("\x85", r"\x85", "U+0085"),
            ("\x9b", r"\x9b", "U+009B"),
        ]
        for name, content in [("a", "<u:1>\tcats\n<%s>\tdogs\n"), ("a.csv", 'uri,label\n"%s",dogs\n')]
        # Before, the csv module refuses it itself, and the row is malformed.
        if (name, code) != ("a.csv", "U+0000") or sys.version_info >= (3, 11)
    ],
    *[
        (f"a.{ending}", content.encode(), f"the URI 'http://e/a{escaped}b' has {code}, ")
        for number, escaped, code in [
            ("0000", r"\x00", "U+0000"),
            ("0009", r"\t", "U+0009"),
            ("000A", r"\n", "U+000A"),
            ("0085", r"\x85", "U+0085"),
            ("D800", r"\ud800", "U+D800"),
        ]
        for ending, content in [
            ("ttl", TURTLE.replace("http://ex.org/2", rf"http://e/a\u{number}b")),
            ("nt", TRIPLES.replace("http://ex.org/2", rf"http://e/a\u{number}b")),
        ]
    ],
    ("a.rdf", XML.replace("http://ex.org/2", "http://e/a&#10;b").encode(), r"the URI 'http://e/a\nb' has U+000A, "),
    ("a.nt", TRIPLES.replace("big dogs", r"a\uD800b").encode(), r"the preferred label 'a\ud800b' has U+D800, "),
]


@pytest.mark.parametrize(("name", "content", "reason"), UNFIT_URIS)
def test_what_no_name_can_have_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(XmlgpError) as caught:
        read_vocabulary(tmp_path / name)
    place = ":2" if name in ("a", "a.csv") else ""
    assert str(caught.value) == f"{tmp_path}/{name}{place}: {reason}which no name can have"


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (TURTLE, "SKOS in Turtle is read from a file named .ttl"),
        (f"<?xml version='1.0'?>\n{XML}", "SKOS in XML is read from a file named .rdf"),
        (XML, "SKOS in XML is read from a file named .rdf"),
        (TRIPLES, "SKOS in N-Triples is read from a file named .nt"),
        (
            '{"@graph": []}',
            "this is JSON; if it is JSON-LD, `rdfpipe -i json-ld -o turtle FILE` of rdflib makes a .ttl of it",
        ),
    ],
)
def test_skos_of_another_name_is_refused_with_its_ending(tmp_path, content, advice):
    (tmp_path / "a.skos").write_text(content)
    with pytest.raises(DataFormatError) as caught:
        read_vocabulary(tmp_path / "a.skos")
    assert str(caught.value) == f"{tmp_path}/a.skos:1: {advice}"


def test_a_label_of_control_characters_alone_is_none(tmp_path):
    (tmp_path / "a").write_text("<u:1>\t\x1b\n")
    with pytest.raises(XmlgpError, match="a: there are no concepts with preferred labels"):
        read_vocabulary(tmp_path / "a")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a", "http://ex.org/1\tcats\t599.75\n<http://ex.org/2>\tbig dogs\nhttp://ex.org/3\tmelu\n"),
        ("a", "\ufeff\n \nhttp://ex.org/1\tcats\t599.75\r\n\t\nhttp://ex.org/2 \tbig dogs\nhttp://ex.org/3\tmelu"),
        ("a", TSV + "<http://ex.org/old>\t\n<http://ex.org/gone>\nhttp://ex.org/left\t\t7\n"),
        ("a", "\nuri\tlabel_en\tnotation\n<http://ex.org/1>\tcats\t599.75\n"),
        ("a.tsv", "URI\tprefLabel@en-US\tnotation\nhttp://ex.org/1\tcats\t599.75\n"),
        ("a.csv", "uri;label_en;notation\nhttp://ex.org/1;cats;599.75\n;;\n"),
        ("a.csv", "uri,skos:prefLabel,notation\n\nhttp://ex.org/1,cats,599.75\nhttp://ex.org/old,,\n"),
        ("a.csv", "notation, uri ,prefLabel_en_US\n599.75,<http://ex.org/1>,cats\n"),
        ("a.csv", "uri\tlabel\tnotation\nhttp://ex.org/1\tcats\t599.75\n"),
    ],
)
def test_what_programs_write_is_read(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    expected = dict.fromkeys((*CATS, "599.75"), CATS)
    if content.count("melu"):
        expected |= {own: concept for concept in (DOGS, NOISE) for own in concept}
    assert read_vocabulary(tmp_path / name).concepts == expected


@pytest.mark.parametrize(
    ("columns", "wanted", "languages", "label"),
    [
        ("en-US de", None, ["en-US", "de"], "1 en-US"),
        ("en-us DE", "EN_us", ["en-US", "de"], "1 en-US"),
        ("de-AT de-CH fr", "de", ["de-AT", "de-CH", "fr"], "1 de-AT"),
        ("de fr-CA fr", "fr", ["fr", "fr-CA", "de"], "1 fr"),
        ("en de", "en-GB", ["en", "de"], "1 en"),
        ("zh-hant-tw en", "zh-Hant", ["zh-Hant-TW", "en"], "1 zh-Hant-TW"),
        ("en-US en-GB", "en-US", ["en-US", "en-GB"], "1 en-US"),
        ("eng de", "en", None, None),
        ("en-US de", "en-GB", None, None),
    ],
)
def test_a_language_stands_for_its_regional_variants(tmp_path, columns, wanted, languages, label):
    columns = columns.split()
    rows = ["uri," + ",".join(f"label_{column}" for column in columns)]
    for number in range(1, 4):
        # The later a language comes, the fewer labels it has.
        filled = columns[: max(1, len(columns) + 1 - number)]
        cells = [f"{number} {column}" if column in filled else "" for column in columns]
        rows.append(f"u:{number}," + ",".join(cells))
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    if languages is None:
        with pytest.raises(SettingsError, match=f"there are no labels in '{wanted}', only in "):
            read_vocabulary(tmp_path / "a.csv", wanted)
        return
    found = read_vocabulary(tmp_path / "a.csv", wanted)
    assert found.languages == languages
    assert found.concepts["u:1"][1].lower() == label.lower()


def test_a_variant_comes_before_other_languages(tmp_path):
    (tmp_path / "a.csv").write_text("uri,label_fr,label_en-US,label_en\nu:1,a,b,c\nu:2,d,e,\nu:3,f,,\nu:4,g,,\n")
    found = read_vocabulary(tmp_path / "a.csv")
    assert [found.concepts[f"u:{number}"][1] for number in (1, 2, 3)] == ["c", "e", "f"]
    notes = []
    name_labels(Names(["u:1"]), found, notes.append)
    assert notes == [f"{tmp_path}/a.csv: preferred labels of 1 of 1 label, in 'en' (there is also 'en-US', 'fr')"]


def test_the_note_names_the_language_that_was_taken(tmp_path):
    turtle = TURTLE.replace("@en", "@en-US").replace('"kissat"@fi', '"Katzen"@de-AT').replace("@fi", "@en-US")
    (tmp_path / "a.ttl").write_text(turtle.replace(', "Katzen"@de-AT', ""))
    notes = []
    name_labels(Names(["cats"]), read_vocabulary(tmp_path / "a.ttl"), notes.append)
    assert notes == [f"{tmp_path}/a.ttl: preferred labels of 1 of 1 label, in 'en-US'"]
    (tmp_path / "a.ttl").write_text(turtle)
    assert read_vocabulary(tmp_path / "a.ttl", "de").concepts["cats"] == (f"{PREFIX}1", "Katzen")


def test_quotes_in_tables_with_tabs_count_where_they_are_closed(tmp_path):
    (tmp_path / "a.tsv").write_text(
        'uri\tlabel\nu:1\t"Cats" and dogs\nu:2\t"big ""dogs"""\n\nu:3\t"open\nu:4\t5" disk\n'
    )
    found = read_vocabulary(tmp_path / "a.tsv").concepts
    labels = [found[f"u:{number}"][1] for number in (1, 2, 3, 4)]
    assert labels == ['"Cats" and dogs', 'big "dogs"', '"open', '5" disk']


def test_characters_have_one_form(tmp_path):
    (tmp_path / "a").write_text("<http://e/caf\u00e9>\tErna\u0308hrung\n")
    found = read_vocabulary(tmp_path / "a")
    assert set(found.concepts) == {"http://e/café", "Ern\u00e4hrung"}
    # Names beside rows of numbers are as they are.
    assert name_labels(Names(["<http://e/cafe\u0301>", "Erna\u0308h\xadrung"]), found).uris == ["http://e/café"] * 2


def test_a_concept_without_a_uri_is_left_out(tmp_path):
    (tmp_path / "a.ttl").write_text(TURTLE + '[] skos:prefLabel "cats"@en .\n')
    assert read_vocabulary(tmp_path / "a.ttl").concepts["cats"] == CATS


@pytest.mark.parametrize(
    "name", ["a.tsv.gz", "a.csv.gz", "a.ttl.gz", "a.nt.gz", "a.rdf.gz", "a.tsv.xz", "a.CSV.zst", "a.ttl.bz2"]
)
def test_a_compressed_vocabulary_expands_within_limits(tmp_path, monkeypatch, name):
    monkeypatch.setattr("xmlgp.text.vocabulary_files.FREE_BYTES", 1 << 20)
    text = {".tsv": TSV, ".csv": CSV, ".ttl": TURTLE, ".nt": TRIPLES, ".rdf": XML}[format_ending(name)]
    path = tmp_path / name
    compress = PACK[path.suffix]
    empty = b",,," * (text is CSV) + b" " * 1020 + b"\n"
    path.write_bytes(compress(text.encode() + empty * 500))
    assert read_vocabulary(path).concepts["cats"] == CATS
    path.write_bytes(compress(text.encode() + empty * 50_000))
    expected = f"{path}: it expands to more than 1 MiB and 100 times its size; save it without compression"
    tracemalloc.start()
    try:
        with pytest.raises(XmlgpError) as caught:
            read_vocabulary(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert str(caught.value) == expected
    # A file that is as large as what it has is not refused.
    path.write_bytes(gzip.compress(text.encode() + empty * 5000, compresslevel=0))
    assert read_vocabulary(path).concepts["cats"] == CATS


@pytest.mark.parametrize(
    ("name", "head", "line"),
    [
        ("a", "", "<u:1>\tcats\t7\n<u:2>\tdogs\n"),
        ("a.csv", "uri,label\n", "u:1,cats\nu:2,dogs\n"),
        (
            "a.ttl",
            "@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n<u:1> s:prefLabel 'cats'.\n",
            "[] s:prefLabel 'b'.\n",
        ),
    ],
)
def test_only_distinct_concepts_are_held(tmp_path, name, head, line):
    times = 5000 if name == "a.ttl" else 20_000
    read_vocabulary_of(tmp_path / name, head + line)
    least = read_vocabulary_of(tmp_path / name, head + line)
    assert read_vocabulary_of(tmp_path / name, head + line * times) < least + (1 << 21)
    if name != "a.ttl":
        assert read_vocabulary_of(tmp_path / name, "\n" * times * 10 + head + line) < least + (1 << 22)


def read_vocabulary_of(path, text):
    """Return the most bytes that are held while a vocabulary is read, apart from its text."""
    path.write_text(text)
    tracemalloc.start()
    try:
        assert read_vocabulary(path).concepts["cats"] == ("u:1", "cats")
        return tracemalloc.get_traced_memory()[1] - 2 * len(text)
    finally:
        tracemalloc.stop()


def test_entities_that_shorten_addresses_are_read(tmp_path):
    entity = '<!DOCTYPE r [<!ENTITY ex "http://ex.org/">]>'
    (tmp_path / "a.rdf").write_text(entity + XML.replace('about="http://ex.org/', 'about="&ex;'))
    assert read_vocabulary(tmp_path / "a.rdf").concepts["cats"] == CATS


def test_a_language_that_no_label_has(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(SettingsError, match="there are no labels in 'de', only in 'en', 'fi'"):
        read_vocabulary(tmp_path / "a.csv", "de")


def test_skos_without_rdflib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdflib", None)
    (tmp_path / "a.ttl").write_text(TURTLE)
    with pytest.raises(XmlgpError, match=r"SKOS needs rdflib: pip install 'xmlgp\[text\]'"):
        read_vocabulary(tmp_path / "a.ttl")
