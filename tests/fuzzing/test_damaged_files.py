"""Damaged files of two kinds, the same in every run: each is read correctly or refused in one sentence."""

import json

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzzing.data_files import points_of
from tests.fuzzing.mangling import mangled
from tests.fuzzing.strict_readers import Malformed, read_data
from tests.text.corpora import documents_of
from xmlgp.data.files import open_input
from xmlgp.data.formats import COLUMNS_ALWAYS_ALLOWED, REPOSITORY, read_rows
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import XmlgpError
from xmlgp.text.label_names import normalized_name

DATA = [
    b"6 9 5\n0,3 1:1.000000 4:0.5 8:-2.5e-3\n 0:1 2:.25\n4\n\n2,1,0 7:3 5:12.125 6:+1\n1 3:0.333333 8:7\n",
    b"3 4 3\n0,2 0:1 1:0.5 3:2\n1 0:0.25\n2 2:1e-3 3:-4.75\n",
    b"2 2147483647 2147483647\n2147483646 2147483646:1\n 0:1 7:2\n",
    b"0 3 3\n",
]
DATA_TOKENS = [
    *(b"0", b"007", b"2147483648", b"18446744073709551617", b"-1", b"1.0", b"", b"0" * 5000 + b"1"),
    *(b".5", b"5.", b"-2.5e-3", b"1e-46", b"3.4028235677973366e38", b"1e-999", b"9" * 5000, b"0x1p3", b"1_0", b"1e"),
    *(b" 0:1", b"0,1", b"1 2 3\n", b"1000000000 1000000000 1000000000\n"),
]
CORPORA = [
    b'{"id": 7, "text": "The printer jams", "labels": ["printer", "paper tray"]}\n{"text": "Dark", "labels": []}\n',
    b'{"text": "caf\\u00e9 \\ud83d\\ude00", "labels": ["caf\xc3\xa9"], "id": "a"}\n\n{"labels": null, "text": null}\n',
]
CORPUS_TOKENS = [
    b'"',
    b"\\",
    b"\\ud800",
    b'"text"',
    b'"labels":',
    b"null",
    b"[[",
    b"{}",
    b'["a", "b"]',
    b"NaN",
    b"true",
]

FIXED = settings(
    max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def read_or_refused(read):
    """Return what was read, or None after a refusal in one sentence."""
    try:
        return read()
    except XmlgpError as error:
        sentence = str(error)
    assert sentence.isprintable()
    assert len(sentence) < 600
    return None


def read_file(path):
    """Return the points of a file of rows, and their format."""
    with open_input(path) as stream:
        return read_rows(LineReader(stream, str(path)))


@FIXED
@given(mangled(DATA, DATA_TOKENS))
def test_damaged_rows(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "damaged.txt"
    path.write_bytes(content)
    found = read_or_refused(lambda: read_file(path))
    try:
        expected = read_data(content)
    except Malformed:
        # What is libsvm's format or something else is not of this reader.
        assert found is None or found[1] != REPOSITORY
        return
    if max(expected[1:3]) > COLUMNS_ALWAYS_ALLOWED:
        # Which these few values do not fill.
        assert found is None
        return
    assert found is not None
    dataset, data_format = found
    assert data_format == REPOSITORY
    assert (*dataset.shape, points_of(dataset)) == expected


@FIXED
@given(mangled(CORPORA, CORPUS_TOKENS))
def test_damaged_json_lines(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    path.write_bytes(content)
    found = read_or_refused(lambda: documents_of(path))
    if found is None:
        return
    objects = [json.loads(line) for line in content.decode("utf-8-sig").split("\n") if line.strip("\ufeff \t\r")]
    assert [document.text for document in found] == [str(fields["text"] or "") for fields in objects]
    for document, fields in zip(found, objects, strict=True):
        labels = fields["labels"] if isinstance(fields["labels"], list) else [fields["labels"]]
        names = [normalized_name(str(label)) for label in labels if label is not None]
        assert document.labels == [name for name in names if name]


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04" + b"\0" * 99])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt", "a.csv.gz"])
def test_what_is_no_text_is_refused(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    assert not read_or_refused(lambda: documents_of(tmp_path / name))
