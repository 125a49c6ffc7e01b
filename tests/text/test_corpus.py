"""Corpora of every format are told apart and read, plain, gzipped and piped."""

import functools
import json
import sys

import pytest

from tests.fuzzing.data_files import standard_input
from tests.text.corpora import documents_of, in_every_way
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, UsageError
from xmlgp.text.corpus import is_corpus, open_corpus, read_documents
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document
from xmlgp.text.formats import FORMATS, format_of_corpus, has_corpus_ending
from xmlgp.text.label_rows import divide_labels

TITLED = CorpusOptions(text=("title", "body"), labels=("tags",), separator="|", id="key")

CORPORA = {
    "annif": (
        "corpus",
        "A cat, sat\t<http://a/x> <http://b/y>\n\nZürich 機械\tcity  <lake>\nno labels\t\n\tlonely\n",
        NO_OPTIONS,
        [
            (1, None, "A cat, sat", ["http://a/x", "http://b/y"]),
            (3, None, "Zürich 機械", ["city", "lake"]),
            (4, None, "no labels", []),
            (5, None, "", ["lonely"]),
        ],
    ),
    "csv": (
        "corpus",
        'id,text,labels\n7,"a ""b"", c",x;y z\n\n8,"two\nlines",\n',
        NO_OPTIONS,
        [(2, "7", 'a "b", c', ["x", "y z"]), (4, "8", "two\nlines", [""])],
    ),
    "csv with semicolons": (
        "corpus",
        'id;text;labels\n1;"red; two";"a;b"\n2;blue, three;b\n',
        NO_OPTIONS,
        [(2, "1", "red; two", ["a", "b"]), (3, "2", "blue, three", ["b"])],
    ),
    "csv with lists": (
        "corpus",
        'text,labels\nfox,"[""x"", ""y, z""]"\n',
        NO_OPTIONS,
        [(2, None, "fox", ["x", "y, z"])],
    ),
    "csv with columns": ("corpus", "key,title,tags,body\nk,One,a|b,two\n", TITLED, [(2, "k", "One two", ["a", "b"])]),
    "tsv": ("corpus", 'text\tlabels\tid\n"a\tb"\tx;y\t\n', NO_OPTIONS, [(2, "", "a\tb", ["x", "y"])]),
    "jsonl": (
        "corpus",
        '{"text": "a\\tb \\u00e9", "labels": ["x y", 3, null, ""], "id": 17}\n\n'
        ' {"labels": null, "text": null, "more": [{"NaN": 1}]}\r\n{"text": 1.5, "labels": "one; label", "id": "k"}\n',
        NO_OPTIONS,
        [(1, 17, "a\tb é", ["x y", "3", ""]), (3, None, "", []), (4, "k", "1.5", ["one; label"])],
    ),
    "jsonl in an array": (
        "corpus",
        '[{"text": "a [b], \\\\\\"{c", "labels": ["x"]}, {"text": "d", "labels": []},\n\n  {\n    "text": "e",\n'
        '    "labels": "y", "more": [[{}], {"]": ","}]\n  }\n  ,\n{"text": "", "labels": null, "id": 3}]\n\n',
        NO_OPTIONS,
        [(1, None, 'a [b], \\"{c', ["x"]), (1, None, "d", []), (3, None, "e", ["y"]), (8, 3, "", [])],
    ),
    "jsonl in an empty array": ("corpus.json", "[\n\n]\n", NO_OPTIONS, []),
    "jsonl with subjects": (
        "corpus",
        '{"text": "a", "subjects": [{"uri": "http://x/1", "label": "cats"}, {"label": "dogs", "uri": null}, "c"]}\n',
        CorpusOptions(labels="subjects"),
        [(1, None, "a", ["http://x/1", "dogs", "c"])],
    ),
    "jsonl with subjects in place of labels": (
        "corpus",
        '{"text": "a", "subjects": [{"uri": "http://x/1", "label": "cats"}]}\n'
        '{"text": "b", "subjects": [], "labels": ["c"]}\n',
        NO_OPTIONS,
        [(1, None, "a", ["http://x/1"]), (2, None, "b", ["c"])],
    ),
    "jsonl with the labels of subjects": (
        "corpus",
        '{"text": "a", "subjects": [{"uri": "http://x/1", "label": "cats"}, {"label": "dogs"}]}\n',
        CorpusOptions(labels="subjects.label"),
        [(1, None, "a", ["cats", "dogs"])],
    ),
    "jsonl with nested columns": (
        "corpus.jsonl",
        '{"doc": {"title": "One", "body": {"text": "two"}}, "meta": {"tags": ["a", "b"]}, "x.y": "dotted"}\n'
        '{"doc": {"title": "", "body": {"text": ""}}, "meta": {"tags": "a b"}, "x.y": 5}\n',
        CorpusOptions(("doc.title", "doc.body.text"), "meta.tags", " ", "x.y"),
        [(1, "dotted", "One two", ["a", "b"]), (2, 5, " ", ["a", "b"])],
    ),
    "fasttext": (
        "corpus",
        "__label__a __label__b-c some text\ntext between __label__d words\n\n__label__\n",
        NO_OPTIONS,
        [(1, None, "some text", ["a", "b-c"]), (2, None, "text between words", ["d"]), (4, None, "", [""])],
    ),
    "pecos": (
        "corpus",
        "3,17,3\tsome\twords\n\n\tnothing\n0\t\n",
        NO_OPTIONS,
        [(1, None, "some\twords", ["3", "17", "3"]), (3, None, "nothing", []), (4, None, "", ["0"])],
    ),
}


@pytest.mark.parametrize("case", CORPORA)
@pytest.mark.parametrize("change", ["plain", "no last newline", "carriage returns", "byte order mark"])
def test_documents_are_read(tmp_path, case, change):
    name, text, options, expected = CORPORA[case]
    content = text.encode()
    if change == "no last newline":
        content = content[:-1]
    elif change == "carriage returns":
        content = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    elif change == "byte order mark":
        content = b"\xef\xbb\xbf" + content
    found = in_every_way(tmp_path / name, content, lambda path: documents_of(path, options))
    assert found == [Document(*document) for document in expected]
    assert all(type(document.id) is type(other[1]) for document, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("case", CORPORA)
def test_the_format_is_told_and_can_be_given(tmp_path, case):
    name, text, options, expected = CORPORA[case]
    format_name = case.split()[0]
    assert format_of_corpus(name, text.encode().split(b"\n")[0] + b"\n", options) == format_name
    path = tmp_path / "odd name.txt"
    path.write_text(text)
    assert documents_of(path, options._replace(format=format_name)) == [Document(*document) for document in expected]
    assert format_name in FORMATS


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"some text\n", "lines"),
        (b"\n", "lines"),
        (b"text,labels\n", "csv"),
        (b"labels\ttext\n", "tsv"),
        (b"TEXT,labels\n", "csv"),
        (b"TEXTS,labels\n", "lines"),
        (b"id\t Text \tlabels\n", "tsv"),
        (b"text|labels\n", "csv"),
        (b"sep=;\n", "csv"),
        (b"10::2.0,11::1\twords\n", "pecos"),
        (b"words\tand more\t<http://a/x> <http://b/y>\n", "annif"),
        (b"words\tand more\tlabel\n", "tsv"),
        (b"see __label__x\n", "fasttext"),
        (b"my__label__x y\n", "lines"),
        (b"1,2\twords\n", "pecos"),
        (b"\tno label here\n", "pecos"),
        ("\u0663\twords\n".encode(), "annif"),
        (b"1,\twords\n", "annif"),
        (b'  {"text": 1}\n', "jsonl"),
        (b"[\n", "jsonl"),
        (b' [ {"text": 1}, {}\n', "jsonl"),
        (b"[a] text\tlabel\n", "annif"),
        (b"[1] text\n", "lines"),
        (b"\xff\xfea\tb\n", "annif"),
        (b'"text,labels\n', "lines"),
    ],
)
def test_first_lines_tell_formats(line, name):
    assert format_of_corpus("-", line) == name
    assert format_of_corpus("a.CSV.gz", line) == "csv"
    assert format_of_corpus("a.ndjson", line) == "jsonl"


def test_given_columns_tell_that_there_is_a_header_but_those_of_a_model_do_not():
    options, columns = CorpusOptions(text=("title",)), Columns(text=("title",))
    assert format_of_corpus("-", b"a,b\n", options) == "csv"
    assert format_of_corpus("-", b"a\tb\n", options) == "tsv"
    assert format_of_corpus("-", b"a,b\n", usual=columns) == "lines"
    assert format_of_corpus("-", b"a,title\n", usual=columns) == "csv"
    assert format_of_corpus("-", b"title\n", usual=columns) == "tsv"
    with standard_input(b"title of a text\n"):
        assert documents_of("-", labelled=False, usual=columns) == [Document(1, None, "title of a text", [])]
    with standard_input(b"key,title\n1,a text\n"):
        assert documents_of("-", labelled=False, usual=columns) == [Document(2, None, "a text", [])]


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("a.txt", b"3 4 5\n", False),
        ("a.txt", b"+1 1:0.5\n", False),
        ("a.txt", b"1,2\twords\n", True),
        ("a.txt", b"1 text: more\n", True),
        ("a.jsonl", b"3 4 5\n", True),
        ("a.csv.gz", b"3 4 5\n", True),
        ("-", b"some text\n", True),
    ],
)
def test_corpora_and_rows_are_told_apart(path, line, expected):
    assert is_corpus(path, line) == expected
    assert has_corpus_ending(path) == (path[1:] in (".jsonl", ".csv.gz"))


@pytest.mark.parametrize(
    ("name", "content", "labelled", "expected"),
    [
        ("a.txt", b"one\n\ntwo\n", False, [(1, "one"), (2, ""), (3, "two")]),
        ("a.txt", b"one\tx\n\ntwo\ty z\n", True, [(1, "one"), (3, "two")]),
        ("a.txt", b"one\tx\n\ntwo\ty z\n", False, [(1, "one"), (3, "two")]),
        ("a.csv", b"text\none\n", False, [(2, "one")]),
        ("a.jsonl", b'{"text": "one"}\n', False, [(1, "one")]),
    ],
)
def test_documents_without_labels_and_empty_lines(tmp_path, name, content, labelled, expected):
    found = in_every_way(tmp_path / name, content, functools.partial(documents_of, labelled=labelled))
    assert [(document.line, document.text) for document in found] == expected
    assert labelled or not any(document.labels for document in found)


@pytest.mark.parametrize(
    ("separator", "labels", "expected"),
    [
        (None, "a b;c", ["a b", "c"]),
        (" ", "a  b\u00a0c;d", ["a", "b\u00a0c;d"]),
        (",", "a, b", ["a", " b"]),
        ("ß", "aßb", ["a", "b"]),
    ],
)
def test_separators_of_labels(tmp_path, separator, labels, expected):
    options = CorpusOptions(separator=separator)
    assert divide_labels(labels, separator, ";") == expected
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "", "labels": labels}) + "\n")
    (document,) = documents_of(tmp_path / "a.jsonl", options)
    assert document.labels == (expected if separator else [labels])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("name", ["corpus", "corpus.csv"])
def test_text_of_another_encoding(tmp_path, encoding, name):
    content = 'id,text,labels\r\n1,"Grüße aus Zürich",Büro;daheim\r\n2,ÿ\u0080,\r\n'.encode(encoding, "replace")
    options = CorpusOptions(encoding=encoding)
    found = in_every_way(tmp_path / name, content, lambda path: documents_of(path, options))
    assert found[0] == Document(2, "1", "Grüße aus Zürich", ["Büro", "daheim"])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("encoding", "content", "noticed"),
    [
        ("latin-1", "Alte Bücher\tgrün\n".encode(), True),
        ("latin-1", "Alte Bücher\tgrün\n".encode("latin-1"), False),
        ("cp1252", b"only ASCII\tx\n", False),
        ("utf-8", "Alte Bücher\tgrün\n".encode(), False),
    ],
)
def test_utf_8_that_is_read_as_another_encoding_is_noted(tmp_path, encoding, content, noticed):
    path = str(tmp_path / "a")
    (tmp_path / "a").write_bytes(content)
    told, options = [], CorpusOptions(encoding=encoding)
    with open_corpus(path, options, told.append) as reader:
        assert len(list(read_documents(reader, options))) == 1
    advice = f"if that is right, leave out --encoding {encoding}"
    assert told == [f"{path}: the text reads as UTF-8 too, with words such as 'Bücher'; {advice}"] * noticed


@pytest.mark.parametrize(
    ("encoding", "content", "reason"),
    [
        ("ascii", b"one\tx\ntw\xff\ty\n", "2: this line is not ascii"),
        ("utf-16", b"one\tx\n", "1: this is not utf-16: it does not start with a byte order mark"),
        ("cp932", b"one\tx\ntwo\ty\n\x81\n", "3: this line is not cp932"),
    ],
)
def test_text_that_is_not_of_the_given_encoding(tmp_path, encoding, content, reason):
    def refusal(path):
        with pytest.raises(DataFormatError) as caught:
            documents_of(path, CorpusOptions(format="annif", encoding=encoding))
        return str(caught.value).removeprefix(f"{path}:")

    assert in_every_way(tmp_path / "corpus", content, refusal) == reason


@pytest.mark.parametrize("encoding", ["nonsense", "base64", "rot13", "undefined", "a\0b"])
def test_encodings_that_are_none_are_refused(tmp_path, encoding):
    (tmp_path / "a").write_text("one\tx\n")
    with pytest.raises(UsageError, match="is not an encoding that Python knows"):
        documents_of(tmp_path / "a", CorpusOptions(encoding=encoding))


@pytest.mark.parametrize(
    ("encoding", "text", "guess"),
    [
        ("cp1252", "Drucker druckt nicht, Grüße aus Zürich\tBüro", "--encoding cp1252 reads it as 'Grüße aus Zürich"),
        ("cp1251", "Принтер не печатает страницы\tпринтер", "--encoding cp1251 reads it as 'Принтер не"),
        ("cp932", "プリンターが動きません。パスワード\tプリンタ", "--encoding cp932 reads it as 'プリンターが"),
    ],
)
def test_the_encoding_is_guessed_where_charset_normalizer_is_installed(tmp_path, monkeypatch, encoding, text, guess):
    for copies in 1, 500:
        (tmp_path / "a").write_bytes(f"first\tx\n{text}\n".encode(encoding) * copies)
        with pytest.raises(DataFormatError, match="a:2: byte 0x.. at byte [0-9]+ of the line is not UTF-8; ") as caught:
            documents_of(tmp_path / "a")
        assert guess in str(caught.value)
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    with pytest.raises(DataFormatError, match="is not UTF-8; --encoding names its encoding, such as cp1252"):
        documents_of(tmp_path / "a")


def test_only_blanks_divide_words_of_fasttext_whether_or_not_there_are_other_letters(tmp_path):
    for name, text in (("ascii", "word"), ("other", "Wört")):
        path = tmp_path / name
        path.write_text(f"__label__a \x1c__label__b {text}\n", encoding="utf-8")
        with open_input(path) as stream:
            (document,) = read_documents(LineReader(stream, str(path)), CorpusOptions(format="fasttext"))
        assert list(document.labels) == ["a"]
        assert document.text == f"\x1c__label__b {text}"
