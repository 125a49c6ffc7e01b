"""Vocabularies of both formats give the same names, and labels are found by URI, then by label."""

import gzip

import pytest

from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary

TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://ex.org/1> a skos:Concept ; skos:prefLabel "cats"@en, "kissat"@fi ; skos:altLabel "felines"@en .
<http://ex.org/2> skos:prefLabel "big\\n dogs"@en .
<http://ex.org/3> skos:prefLabel "noise"@en .
<http://ex.org/4> skos:notation "4" .
"""
TRIPLES = """<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "cats"@en .
<http://ex.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "kissat"@fi .
<http://ex.org/2> <http://www.w3.org/2004/02/skos/core#prefLabel> "big dogs"@en .
<http://ex.org/3> <http://www.w3.org/2004/02/skos/core#prefLabel> "noise"@en .
"""
XML = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://www.w3.org/2004/02/skos/core#">
<s:Concept rdf:about="http://ex.org/1"><s:prefLabel xml:lang="en">cats</s:prefLabel>
<s:prefLabel xml:lang="fi">kissat</s:prefLabel></s:Concept>
<s:Concept rdf:about="http://ex.org/2"><s:prefLabel xml:lang="en">big dogs</s:prefLabel></s:Concept>
<s:Concept rdf:about="http://ex.org/3"><s:prefLabel xml:lang="en">noise</s:prefLabel></s:Concept>
</rdf:RDF>
"""
TSV = "\ufeff<http://ex.org/1>\tcats\t599.75\n\nhttp://ex.org/2\tbig\u00a0 dogs\n<http://ex.org/3>\tnoise\r\n<u:old>\t\n<u:x>\n"

PREFIXES = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""

NOTATIONS = {"a.ttl": {"4": "http://ex.org/4"}}
LABELS = {"http://ex.org/1": "cats", "http://ex.org/2": "big dogs", "http://ex.org/3": "noise"}


@pytest.mark.parametrize(
    ("name", "content"), [("a.ttl", TURTLE), ("a.nt", TRIPLES), ("a.rdf", XML), ("a.tsv", TSV), ("a", TSV)]
)
def test_all_formats_have_the_same_concepts(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    for path in tmp_path / name, tmp_path / f"{name}.gz":
        found = read_vocabulary(path)
        assert found.labels == LABELS
        assert found.uris == {label: uri for uri, label in LABELS.items()} | NOTATIONS.get(name, {})
        assert found.language == ("" if content is TSV else "en")
    if content is not TSV:
        assert read_vocabulary(tmp_path / name, "fi").labels == {"http://ex.org/1": "kissat"}


@pytest.mark.parametrize(
    ("tags", "wanted", "expected"),
    [
        ("en-US de de", None, "en-US"),
        ("sv fi fi", None, "fi"),
        ("en-US de", "EN_us", "en-US"),
        ("de-AT de-AT de-CH", "de", "de-AT"),
        ("fr-CA fr-CA fr", "fr", "fr"),
        ("en de", "en-GB", "en"),
        ("eng de", "en", None),
        ("en-US de", "en-GB", "en-US"),
    ],
)
def test_a_language_stands_for_its_regional_variants(tmp_path, tags, wanted, expected):
    lines = [
        f'<u:{n}> <http://www.w3.org/2004/02/skos/core#prefLabel> "{n}"@{tag} .' for n, tag in enumerate(tags.split())
    ]
    (tmp_path / "a.nt").write_text("\n".join(lines) + "\n")
    if expected is None:
        with pytest.raises(SettingsError, match=f"there are no labels in '{wanted}', only in "):
            read_vocabulary(tmp_path / "a.nt", wanted)
    else:
        assert read_vocabulary(tmp_path / "a.nt", wanted).language.lower() == expected.lower()


def test_a_label_of_several_concepts_is_that_of_none(tmp_path):
    (tmp_path / "a").write_text("<u:1>\tbank\n<u:2>\tbank\n<u:3>\tu:1\n")
    found = name_labels(Names(["bank", "u:1", "u:3"]), read_vocabulary(tmp_path / "a"))
    assert found.uris == ["", "u:1", "u:3"]
    assert found.preferred == ["bank", "bank", "u:1"]


@pytest.mark.parametrize(
    ("notations", "labels", "without"),
    [
        (['"004"', '"78"', '"QA 76.9"'], ["004", "78", "QA 76.9"], []),
        (["004", "78"], ["004", "78"], ["004"]),
        (["4.0", "4.10", "-4.5"], ["4.0", "4.10", "-4.5"], []),
        (["1e3", '"2e3"'], ["1e3", "2e3"], ["1e3"]),
        (["true", "false"], ["true", "false"], []),
        (['"2020-01-05"^^xsd:date', '"2021-01-05Z"^^xsd:date'], ["2020-01-05", "2021-01-05Z"], ["2021-01-05Z"]),
        (['"007"^^xsd:integer', '"008"^^xsd:string', '"009"^^<u:c>'], ["007", "008", "009"], ["007"]),
    ],
    ids=["quoted", "integers", "decimals", "doubles", "booleans", "dates", "typed"],
)
def test_labels_are_found_by_their_notations(tmp_path, notations, labels, without):
    concepts = [f'<u:{n}> skos:notation {value} ; skos:prefLabel "concept {n}" .' for n, value in enumerate(notations)]
    (tmp_path / "a.ttl").write_text("\n".join([PREFIXES, *concepts]))
    notes = []
    found = name_labels(Names(labels), read_vocabulary(tmp_path / "a.ttl"), notes.append)
    assert found.uris == ["" if label in without else f"u:{n}" for n, label in enumerate(labels)]
    assert found.preferred == [label if label in without else f"concept {n}" for n, label in enumerate(labels)]
    warning = (
        f"Warning: {tmp_path}/a.ttl: no concept is named {without}; rdflib reads a notation without quotes as a number"
    )
    assert [warning in note for note in notes[1:]] == [True] * bool(without)


def test_only_numbers_are_said_to_need_quotes(tmp_path):
    notes = []
    for notation in '"004"', "4.0":
        (tmp_path / "a.ttl").write_text(f'{PREFIXES}<u:1> skos:notation {notation} ; skos:prefLabel "a" .')
        name_labels(Names(["x"]), read_vocabulary(tmp_path / "a.ttl"), notes.append)
    assert ["quotes" in note for note in notes] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.nt", '<u:1> <{skos}notation> {value} .\n<u:1> <{skos}prefLabel> "one" .\n'),
        ("a.ttl", '<u:1> <{skos}notation> {value} ; <{skos}prefLabel> "one" .\n'),
    ],
)
@pytest.mark.parametrize(
    ("value", "found"), [('"004"', "u:1"), ('"004"^^<http://www.w3.org/2001/XMLSchema#integer>', "")]
)
def test_notations_of_triples_need_no_type(tmp_path, name, content, value, found):
    (tmp_path / name).write_text(content.format(skos="http://www.w3.org/2004/02/skos/core#", value=value))
    assert name_labels(Names(["004"]), read_vocabulary(tmp_path / name)).uris == [found]


def test_notations_in_xml_are_found(tmp_path):
    (tmp_path / "a.rdf").write_text(XML.replace("</s:Concept>", "<s:notation>004</s:notation></s:Concept>", 1))
    assert name_labels(Names(["004"]), read_vocabulary(tmp_path / "a.rdf")).preferred == ["cats"]


def test_a_notation_of_several_concepts_is_that_of_none(tmp_path):
    concepts = ['<u:1> skos:notation "1", "a" ; skos:prefLabel "a" .', '<u:2> skos:notation "1" ; skos:prefLabel "c" .']
    concepts += [
        '<u:3> skos:notation "c" ; skos:prefLabel "b" .',
        '_:x skos:notation "2" .',
        '<u:4> skos:notation "4" .',
    ]
    (tmp_path / "a.ttl").write_text("\n".join([PREFIXES, *concepts]))
    names = name_labels(Names(["1", "a", "c", "2", "4"]), read_vocabulary(tmp_path / "a.ttl"))
    assert names.uris == ["", "u:1", "", "", "u:4"]
    assert names.preferred == ["1", "a", "c", "2", "4"]


def test_labels_keep_their_names_and_get_others(tmp_path):
    (tmp_path / "a").write_text(TSV, encoding="utf-8")
    names, notes = Names(["http://ex.org/3", "cats", "other", "http://ex.org/9"]), []
    found = name_labels(names, read_vocabulary(tmp_path / "a"), notes.append)
    assert found.labels == names.labels
    assert found.uris == ["http://ex.org/3", "http://ex.org/1", "", "http://ex.org/9"]
    assert found.shown == found.preferred == ["noise", "cats", "other", "http://ex.org/9"]
    assert notes == [f"{tmp_path}/a: preferred labels of 2 of 4 labels"]
    # Later labels follow.
    more = names._replace(labels=[*names.labels, "big dogs"])
    assert name_labels(more, earlier=found).preferred == [*found.preferred, "big dogs"]
    assert name_labels(names) is names
    with pytest.raises(SettingsError, match="the labels have no names"):
        name_labels(Names(), read_vocabulary(tmp_path / "a"))


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("<u:1>\tfauna\n<u:2>\tfurniture\n", "fauna"),
        ("<u:1>\tfauna\n<u:9>\tanimals\n<u:2>\tfurniture\n", "fauna"),
        ("<u:1>\tfurniture\n<u:2>\tanimals\n", "furniture"),
        ("<u:2>\tfurniture\n", "animals"),
    ],
    ids=["renamed", "reused", "swapped", "gone"],
)
def test_a_concept_keeps_its_uri_whatever_it_is_called(tmp_path, content, label):
    (tmp_path / "first").write_text("<u:1>\tanimals\n<u:2>\tfurniture\n")
    (tmp_path / "second").write_text(content)
    names = name_labels(Names(["animals", "furniture"]), read_vocabulary(tmp_path / "first"))
    found = name_labels(names, read_vocabulary(tmp_path / "second"))
    assert found.uris == ["u:1", "u:2"]
    assert found.preferred[0] == label


@pytest.mark.parametrize(
    ("name", "content", "error", "reason"),
    [
        ("a", "<u:1>\tcats\nu 2\tdogs\n", DataFormatError, "a:2: the line must be `<URI><TAB>label`, or the file SKOS"),
        ("a.csv", "uri,label_en\n", DataFormatError, "a.csv:1: the line must be `<URI><TAB>label`, or the file SKOS"),
        ("a", TURTLE, DataFormatError, "a:1: the line must be `<URI><TAB>label`, or the file SKOS named .ttl"),
        ("a", "<u:1>\tcats\r<u:2>\tdogs\r", DataFormatError, "a:1: there is a carriage return that ends no line; `tr"),
        ("a", "<u:1>\n", XmlgpError, "a: there are no concepts with preferred labels"),
        ("a", "<u:1>\t\x1b[2J\n", XmlgpError, r"a:1: 'u:1 \x1b[2J' has U+001B, which no name can have"),
        ("a.ttl", "<u:1> <u:2>\n", XmlgpError, "a.ttl: this is not SKOS in turtle: "),
        ("a.nt", TRIPLES.replace("big", r"\uD800"), XmlgpError, "a.nt: "),
        (
            "a.rdf",
            '<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><r>&b;</r>',
            XmlgpError,
            "a.rdf: this XML has entities that refer to others",
        ),
        (
            "a.rdf",
            f'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>{XML}',
            XmlgpError,
            "a.rdf: this XML has entities that refer to",
        ),
        ("a.rdf", "<rdf", XmlgpError, "a.rdf: this is not SKOS in xml: "),
    ],
)
def test_a_malformed_vocabulary_is_refused(tmp_path, name, content, error, reason):
    (tmp_path / name).write_bytes(content.encode())
    with pytest.raises(error) as caught:
        read_vocabulary(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{reason}")
    assert "\n" not in str(caught.value)
