"""A folder of documents is read in the order of names; a data folder is none."""

import pytest

from xmlgp.errors import DataFormatError, NamesFormatError, XmlgpError
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import Document

FILES = {
    "b.txt": "\ufeffTwo\r\nlines",
    "b.tsv": "<http://a/1>\tcats\r\n\n<http://a/2>\n",
    "b.key": "not read",
    "a.txt": "one\u2028line",
    "a.key": " cats and dogs \nä\n\n",
    "B.c.txt": "",
    "B.c.key": "",
    "d.txt": "without",
    ".hidden.txt": "",
    "README.md": "",
}
DOCUMENTS = [
    Document(1, "B.c", "", []),
    Document(1, "a", "one\u2028line", ["cats and dogs", "ä"]),
    Document(1, "b", "Two\nlines", ["http://a/1", "http://a/2"]),
]


def write(folder, files, encoding="utf-8"):
    for name, text in files.items():
        (folder / name).write_bytes(text.encode(encoding))


def test_documents_have_their_names_texts_and_labels(tmp_path):
    write(tmp_path, FILES)
    notes = []
    folder = DocumentFolder(str(tmp_path), note=notes.append)
    assert [found._replace(labels=list(filter(None, found.labels))) for found in folder.documents(True)] == DOCUMENTS
    assert notes == [f"{tmp_path}: 1 document has neither a .tsv nor a .key file with labels; left out"]
    unlabelled = [*(found._replace(labels=[]) for found in DOCUMENTS), Document(1, "d", "without", [])]
    assert list(folder.documents(False)) == unlabelled
    assert len(notes) == 1


def test_another_encoding(tmp_path):
    write(tmp_path, {"a.txt": "für", "a.key": "grün"}, "latin-1")
    assert list(DocumentFolder(tmp_path, "latin-1").documents(True)) == [Document(1, "a", "für", ["grün"])]
    with pytest.raises(DataFormatError, match=r"a.txt:1: byte 0xfc at byte 2 of the line is not UTF-8"):
        list(DocumentFolder(tmp_path).documents(True))


@pytest.mark.parametrize(
    ("files", "error", "reason"),
    [
        (
            {"a.tsv": "<u>\tx\nhttp://a\tcats\n"},
            DataFormatError,
            "/a.tsv:2: the line must begin with a URI in brackets",
        ),
        ({"a.key": "x\ny\x1b\n"}, NamesFormatError, "/a.key:2: U[+]001B at column 2 is a control character"),
        ({}, XmlgpError, "no document NAME.txt has labels, in NAME.tsv or NAME.key"),
    ],
)
def test_a_mistake_is_reported_with_its_file(tmp_path, files, error, reason):
    write(tmp_path, {"a.txt": "text"} | files)
    with pytest.raises(error, match=reason):
        list(DocumentFolder(str(tmp_path)).documents(True))
