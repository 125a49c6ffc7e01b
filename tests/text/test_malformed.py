"""Each kind of broken corpus is refused with the file, the line and the reason."""

import re

import pytest

from tests.text.corpora import documents_of, in_every_way, vectorized
from xmlgp.errors import DataFormatError
from xmlgp.text import delimited, json_objects
from xmlgp.text.documents import CorpusOptions

GOOD = b'{"text": "a b", "labels": ["x"]}\n'
EMPTY = "Expecting value at column 1"


def json_with(field):
    return GOOD + b'{"text": "", "labels": [], ' + field + b"}\n"


NO_LABELS = "there is no {0} 'labels'; the {0}s are 'text', 'tags'; --label-column says which has the labels"

MALFORMED = [
    # (name, content, line, reason)
    ("a.txt", b"one\tx\ntw\xff\ty\n", 2, "byte 0xff at byte 3 of the line is not UTF-8"),
    ("a.txt", b"one\tx\n\n\ntwo\xc3\n", 4, "byte 0xc3 at byte 4 of the line is not UTF-8"),
    ("a.txt", "one\tx\n".encode("utf-16"), 1, "the file is UTF-16, not UTF-8"),
    ("a.csv", "text,labels\na,x\n".encode("utf-16-le"), 1, "the text has NUL bytes, as UTF-16 has; "),
    ("a.txt", "one\tx\n".encode("utf-16-be"), 1, "the text has NUL bytes, as UTF-16 has; --encoding utf-16-be"),
    ("a.txt", b"one\tx\ntwo y\nbad \xff\n", 2, "there is no tab between a text and its labels"),
    ("a.txt", b"1,2\ta\n3,\tb\n", 2, "the labels before the tab must be nonnegative integers, separated by commas"),
    ("a.txt", b"1,2\ta\nb\n", 2, "there is no tab between the numbers of labels and the text"),
    ("a.csv", b'text,labels\n"a\n\n",x\nb,y,z\n', 5, "this row has 3 fields, but the header has 2"),
    ("a.csv", b"text,tags\na,x\n", 1, NO_LABELS.format("column")),
    ("a.csv", b"\n", 1, "there is no column 'text'; the columns are none"),
    ("a.csv", b"text,labels,text\na,x,b\n", 1, "there are 2 columns 'text'"),
    ("a.csv", b'text,labels\na,x\n"b,y\nc,z\n', 3, "a quoted field of the row that starts here has no closing quote"),
    ("a.csv", b'text,labels\n"a"b,x\n', 2, "a quote within a quoted field of the row that starts here is not doubled"),
    (
        "a.csv", b"text,labels\na\rb,x\n", 2,
        "the row that starts here has a carriage return that is neither quoted nor before a newline",
    ),
    ("a.txt", b"text\tlabels\na b\n", 2, "this row has 1 field, but the header has 2"),
    ("a.jsonl", GOOD + b"nonsense\n", 2, f"this line is not JSON: {EMPTY}"),
    ("a.jsonl", GOOD + b"[1]\n", 2, "this line is a list, not a JSON object"),
    ("a.jsonl", GOOD + GOOD.replace(b"}", b"} {}"), 2, "this line is not JSON: Extra data at column "),
    ("a.jsonl", b'{"text": "a}\n', 1, "this line is not JSON: Unterminated string starting at column 10"),
    ("a.jsonl", GOOD + b"[" * 100_000 + b"\n", 2, "this line is not JSON: it is nested too deeply"),
    ("a.jsonl", json_with(b'"n": ' + b"9" * 5000), 2, "this line is not JSON: a number has too many digits"),
    ("a.jsonl", json_with(b'"n": Infinity'), 2, "this line is not JSON: JSON has no Infinity"),
    ("a.jsonl", GOOD + b'{"text": 1e999, "labels": []}\n', 2, "text is inf, which is not text"),
    ("a.jsonl", GOOD + b'{"text": ["a", true], "labels": []}\n', 2, "a part of text is true, which is not text"),
    ("a.jsonl", json_with(b'"a": {"b": 1, "b": 1}'), 2, "this line is not JSON: an object has 'b' twice"),
    ("a.jsonl", GOOD + b'{"labels": []}\n', 2, "there is no field 'text'; the fields are 'labels'; --text-column"),
    ("a.jsonl", GOOD + b'{"text": "", "tags": "x"}\n', 2, NO_LABELS.format("field")),
    ("a.jsonl", GOOD + b"{}\n", 2, "there is no field 'text'; the fields are none; --text-column says"),
    ("a.jsonl", GOOD + b'{"text": "", "subjects": [[true]]}\n', 2, "a label in subjects is true, which is not text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": {}}\n', 2, "labels is an object, neither a list of labels nor text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": {"x": 2}}\n', 2, "label 'x' has 2, which is neither 0 nor 1"),
    ("a.jsonl", GOOD + b"null\n", 2, "this line is null, not a JSON object"),
    ("a.jsonl", GOOD + b'{"text": true, "labels": []}\n', 2, "text is true, which is not text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": [{"name": "x"}]}\n', 2, "a label in labels is an object without uri"),
    ("a.json", b'{\n  "text": "",\n', 1, "this line is not JSON: Expecting property name enclosed in double quotes"),
    ("a.json", b"[" + GOOD + b", 17]\n", 2, "element 2 is 17, not a JSON object"),
    ("a.json", b"[" + GOOD + b",\n\n" + GOOD + b",]\n", 5, f"element 3 is not JSON: {EMPTY}"),
    ("a.json", b"[" + GOOD + b",\n\n{\n'a': 1}\n]\n", 5, "element 2 is not JSON: Expecting property name enclosed"),
    ("a.json", b"[" + GOOD + b',\n{"text": {}}]\n', 3, "element 2: text is an object, which is not text"),
    ("a.json", b"[" + GOOD + b"," + GOOD, 2, "the JSON array has no end; the file may be truncated"),
    ("a.json", b"[" + GOOD + b',{"te\nxt": ""}]\n', 2, "this line ends within a text in quotes"),
    ("a.json", b"[" + GOOD + b"]\n\n" + GOOD, 4, "the JSON array ends before this"),
    ("a.json", b"[" + GOOD + b"}\n", 2, "a brace closes the JSON array"),
    ("a.jsonl", json_with(b'"id": 1.5'), 2, "id is 1.5, neither text nor an integer"),
    ("a.jsonl", json_with(b'"id": "\\ud800"'), 2, "an escape sequence is half of a surrogate pair"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": ["\\ud800"]}\n', 2, "an escape sequence is half of a surrogate pair"),
    ("a.txt", b"text,labels\nfox,[x]\n", 2, "the labels '[x]' are no list of names in quotes"),
    ("a.txt", b"text\tlabels\nfox\t\"x\nhen\ty\n\"dog\n", 4, "this row has 1 field, but the header has 2; --quotes"),
    ("a.txt", b"one\ttwo\tx\n", 1, "there is no column 'text'; the columns are 'one', 'two', 'x'; --text-column"),
    ("a.txt", b"one\tx\ntwo\tmore\tx\n", 2, "there are several tabs; a text with tabs needs labels in brackets"),
    ("a.txt", b"one\t<x> <y\n", 1, "a label has a bracket without the other one, in '<x> <y'"),
    ("a.txt", b"one\t<x> y>\n", 1, "a label has a bracket without the other one, in '<x> y>'"),
    ("a.txt", b"title\tbody\ttags\na\tb\tc\n", 1, "there is no column 'text'"),
    ("a.txt", b"1 3 2\n0 0:1\n", 1, "these are rows of numbers, not text"),
    ("a.txt", b"some text\n", 1, "the first line must be three nonnegative integers `N D K`, not 'some text', or "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "line", "reason"), MALFORMED, ids=lambda value: repr(value)[:50])
def test_a_malformed_corpus_is_refused_with_its_line(tmp_path, name, content, line, reason):
    def refusal(path):
        with pytest.raises(DataFormatError) as caught:
            documents_of(path)
        text = str(caught.value)
        assert text.isprintable()
        assert len(text) < len(path) + 400
        return text.removeprefix(f"{path}:")

    found = in_every_way(tmp_path / name, content, refusal)
    assert found.startswith(f"{line}: {reason}")


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (GOOD + b'{"text": "", "labels": ["a\\tb"]}\n', 2, r"label 'a\tb' has a control character, U+0009"),
        (b"words\tx\nmore\ty a\x1b[2J\n", 2, r"label 'a\x1b[2J' has a control character, U+001B"),
        (b"text,labels\na,x\n\nb,\"y\x7f\"\n", 4, r"label 'y\x7f' has a control character, U+007F"),
    ],
)  # fmt: skip
def test_labels_with_control_characters_are_refused(tmp_path, content, line, reason):
    path = tmp_path / "corpus"
    with pytest.raises(DataFormatError) as caught:
        vectorized(path, content)
    assert str(caught.value) == f"{path}:{line}: {reason}"


def test_a_field_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_FIELD", 1000)
    path = tmp_path / "a.csv"
    for field in (b'"' + b"x\n" * 600, b"x" * 1200):
        path.write_bytes(b"text,labels\nb,y\n" + field + b"\n" * 9)
        with pytest.raises(DataFormatError) as caught:
            documents_of(path)
        reason = "a field of the row that starts here has more than 1000 characters; is a quote not closed?"
        assert str(caught.value) == f"{path}:3: {reason}"


@pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        ("a", "one x\n", CorpusOptions(format="annif"), "there is no tab"),
        ("a", "x\n", CorpusOptions(format="jsonl"), "this line is not JSON"),
        ("a.csv", "title,tags\na,b\n", CorpusOptions(("title", "body")), "there is no column 'body'; the columns"),
        ("a.csv", "title,tags\na,b\n", CorpusOptions(("title",), labels=("topics",)), "there is no column 'topics'"),
        (
            "a.csv",
            "title,tags\na,b\n",
            CorpusOptions(("title",), labels=("tags",), id="key"),
            "there is no column 'key'",
        ),
        ("a.jsonl", '{"text": {"a": "x"}}\n', CorpusOptions(("text.a.c",)), "there is no field 'text.a.c'; the"),
        ("a.jsonl", '{"text": {"a": "x"}}\n', CorpusOptions((".",)), "there is no field '.'; the fields are"),
    ],
)
def test_a_corpus_that_is_not_as_given_is_refused(tmp_path, name, content, options, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataFormatError, match=re.escape(f"{name}:1: {reason}")):
        documents_of(tmp_path / name, options)


def test_an_element_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_objects, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "a.json"
    path.write_bytes(b"[" + (GOOD + b",\n") * 99 + b"\n{\n" + b'"a": [1,\n' * 200)
    with pytest.raises(DataFormatError, match="a.json:200: the element that starts here is longer than 0 MiB"):
        documents_of(path)
