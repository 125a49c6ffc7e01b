"""Corpora of every format are told apart and read, plain, gzipped and piped."""

import functools
import json

import pytest

from tests.fuzzing.data_files import standard_input
from tests.text.corpora import documents_of, in_every_way
from xmlgp.data.files import format_ending
from xmlgp.runtime.errors import DataFormatError, UsageError
from xmlgp.text.corpus import ENDINGS, FORMATS, format_of_corpus
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document

TITLED = CorpusOptions(text=("title", "body"), labels=("tags",), separator="|", id="key")

CORPORA = {
    "annif": (
        "A cat, sat\t<http://a/x> <http://b/y>\n\nZürich 機械\tcity  lake\nno labels\t\n\tlonely\n",
        NO_OPTIONS,
        [
            (1, None, "A cat, sat", ["http://a/x", "http://b/y"]),
            (3, None, "Zürich 機械", ["city", "lake"]),
            (4, None, "no labels", []),
            (5, None, "", ["lonely"]),
        ],
    ),
    "annif with tabs": (
        "a\t<http://a/x>\t<http://a/y>\nc <d>\t<http://a/x>\n",
        NO_OPTIONS,
        [(1, None, "a", ["http://a/x", "http://a/y"]), (2, None, "c <d>", ["http://a/x"])],
    ),
    "csv": (
        'id,text,labels\n7,"a ""b"", c",x;y z\n\n8  a,"two\nlines",\n',
        NO_OPTIONS,
        [(2, "7", 'a "b", c', ["x", "y z"]), (4, "8 a", "two\nlines", [])],
    ),
    "csv with columns": ("key,title,tags,body\nk,One,a|b,two\n", TITLED, [(2, "k", "One two", ["a", "b"])]),
    "csv with columns of labels": (
        "text,a,b\nt,x,y;z\n",
        CorpusOptions(labels=("a", "b")),
        [(2, None, "t", ["x", "y", "z"])],
    ),
    "tsv": ('text\tlabels\tid\n"a" b\tx;y\t\n', NO_OPTIONS, [(2, "", '"a" b', ["x", "y"])]),
    "jsonl": (
        '{"text": "a\\tb \\u00e9", "labels": ["x y", 3, null, ""], "id": 17}\n\n'
        ' {"labels": null, "text": null, "more": [{"a": 1}]}\r\n{"text": "c", "labels": "one label", "id": 2.0}\n',
        NO_OPTIONS,
        [(1, 17, "a\tb é", ["x y", "3"]), (3, None, "", []), (4, 2, "c", ["one label"])],
    ),
    "fasttext": (
        "__label__a __label__b-c some text\ntext between __label__d words\n\n__label__a\ttab\n",
        NO_OPTIONS,
        [(1, None, "some text", ["a", "b-c"]), (2, None, "text between words", ["d"]), (4, None, "tab", ["a"])],
    ),
}


@pytest.mark.parametrize("case", CORPORA)
@pytest.mark.parametrize("change", ["plain", "no last newline", "carriage returns", "byte order mark"])
def test_documents_are_read(tmp_path, case, change):
    text, options, expected = CORPORA[case]
    content = text.encode()
    if change == "no last newline":
        content = content[:-1]
    elif change == "carriage returns":
        content = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    elif change == "byte order mark":
        content = b"\xef\xbb\xbf" + content
    found = in_every_way(tmp_path / "corpus", content, lambda path: documents_of(path, options))
    assert found == [Document(*document) for document in expected]
    assert all(type(document.id) is type(other[1]) for document, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("case", CORPORA)
def test_the_format_is_told_and_can_be_given(tmp_path, case):
    text, options, expected = CORPORA[case]
    name = case.split()[0]
    assert format_of_corpus("-", text.encode().split(b"\n")[0] + b"\n", options) == name
    path = tmp_path / "odd name.txt"
    path.write_text(text, encoding="utf-8")
    assert documents_of(path, options._replace(format=name)) == [Document(*document) for document in expected]
    assert name in FORMATS


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"some text\n", "lines"),
        (b"\n", "lines"),
        (b"text\n", "lines"),
        (b"id,text,labels\n", "csv"),
        (b"labels\ttext\n", "tsv"),
        (b"TEXT,labels\n", "lines"),
        (b"text;labels\n", "lines"),
        (b"words\tand more\t<http://a/x> <http://b/y>\n", "annif"),
        (b"words\tlabel\n", "annif"),
        (b"see __label__x\n", "fasttext"),
        (b"my__label__x y\n", "lines"),
        (b'  {"text": 1}\n', "jsonl"),
        (b"[\n", "jsonl"),
        (b'"text,labels\n', "lines"),
    ],
)
def test_first_lines_tell_formats(line, name):
    assert format_of_corpus("-", line) == name
    assert format_of_corpus("a.CSV.gz", line) == "csv"
    assert format_of_corpus("a.ndjson", line) == "jsonl"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"{\n", "lines"),
        (b"[see also] other\n", "lines"),
        (b"{braces} and\ttabs\n", "annif"),
        (b'{ "text": 1}\n', "jsonl"),
        (b'[{"text": 1}]\n', "jsonl"),
        (b'{"cut', "jsonl"),
    ],
)
def test_where_documents_need_no_labels_only_an_object_tells_json(line, name):
    assert format_of_corpus("-", line, labelled=False) == name
    assert format_of_corpus("-", line) == "jsonl"


def test_given_columns_tell_that_there_is_a_header_but_those_of_a_model_do_not():
    options, columns = CorpusOptions(text=("title",)), Columns(text=("title",))
    assert format_of_corpus("-", b"a,b\n", options) == "csv"
    assert format_of_corpus("-", b"a\tb\n", options) == "tsv"
    assert format_of_corpus("-", b"a,b\n", usual=columns) == "lines"
    assert format_of_corpus("-", b"a,title\n", usual=columns) == "csv"
    with standard_input(b"title of a text\n"):
        assert documents_of("-", labelled=False, usual=columns) == [Document(1, None, "title of a text", [])]


@pytest.mark.parametrize("path", ["a.jsonl", "a.csv.gz", "a.txt", "a.tsv", "-"])
def test_some_endings_alone_tell_a_corpus(path):
    assert (format_ending(path) in ENDINGS) == (path in ("a.jsonl", "a.csv.gz"))


@pytest.mark.parametrize(
    ("name", "content", "labelled", "expected"),
    [
        ("a.txt", b"one\n\ntwo\n", False, [(1, "one"), (2, ""), (3, "two")]),
        ("a.txt", b"one\tx\n\ntwo\ty z\n", True, [(1, "one"), (3, "two")]),
        ("a.txt", b"one\tx\n\ntwo\n", False, [(1, "one"), (3, "two")]),
        ("a.csv", b"text\none\n", False, [(2, "one")]),
        ("a.jsonl", b'{"text": "one"}\n', False, [(1, "one")]),
    ],
)
def test_documents_without_labels_and_empty_lines(tmp_path, name, content, labelled, expected):
    found = in_every_way(tmp_path / name, content, functools.partial(documents_of, labelled=labelled))
    assert [(document.line, document.text) for document in found] == expected
    assert labelled or not any(document.labels for document in found)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("name", ["corpus", "corpus.csv"])
def test_text_of_another_encoding(tmp_path, encoding, name):
    content = 'id,text,labels\r\n1,"Grüße aus Zürich",Büro;daheim\r\n2,ÿ,\r\n'.encode(encoding, "replace")
    options = CorpusOptions(encoding=encoding)
    found = in_every_way(tmp_path / name, content, lambda path: documents_of(path, options))
    assert found[0] == Document(2, "1", "Grüße aus Zürich", ["Büro", "daheim"])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("encoding", "content", "reason"),
    [
        ("ascii", b"one\tx\ntw\xff\ty\n", "2: this line is not ascii"),
        ("utf-16", b"one\tx\n", "1: this is not utf-16: UTF-16 stream does not start with BOM"),
        ("cp932", b"one\tx\ntwo\ty\n\x81\n", "3: this line is not cp932"),
    ],
)
def test_text_that_is_not_of_the_given_encoding(tmp_path, encoding, content, reason):
    def refusal(path):
        with pytest.raises(DataFormatError) as caught:
            documents_of(path, CorpusOptions(format="annif", encoding=encoding))
        return str(caught.value).removeprefix(f"{path}:")

    assert in_every_way(tmp_path / "corpus", content, refusal) == reason


@pytest.mark.parametrize("encoding", ["nonsense", "base64", "a\0b"])
def test_encodings_that_are_none_are_refused(tmp_path, encoding):
    (tmp_path / "a").write_text("one\tx\n")
    with pytest.raises(UsageError, match="is not an encoding that Python knows"):
        documents_of(tmp_path / "a", CorpusOptions(encoding=encoding))


@pytest.mark.parametrize(("one", "other"), [("a b", "a  b"), (3, 3.0), ("3", 3), (None, " ")])
def test_equal_groups_have_equal_numbers(tmp_path, one, other):
    rows = [{"text": "x", "labels": ["a"], "author": author} for author in (one, "Ada", other)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = CorpusOptions(group="author")
    numbers = [document.group for document in documents_of(tmp_path / "a.jsonl", options)]
    assert numbers[0] == numbers[2] != numbers[1]
    assert (numbers[0] == 0) == (one is None)
    assert not any(document.group for document in documents_of(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("author", [["Ada"], 1.5, {}, True])
def test_a_group_that_is_no_text_is_refused(tmp_path, author):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x", "labels": ["a"], "author": author}))
    with pytest.raises(DataFormatError, match="a.jsonl:1: author is .*, which is not text"):
        documents_of(tmp_path / "a.jsonl", CorpusOptions(group="author"))
