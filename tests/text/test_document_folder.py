"""A folder of documents is read in the order of names; a data folder is none."""

import os
from pathlib import Path

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


LEADS_OUT = (
    "this is a symbolic link that leads out of the folder; "
    "copy the documents into the folder, or give the folder that they are in"
)


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.key"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "this is not a regular file"),
        (Path.mkdir, "this is not a regular file"),
        (lambda path: path.symlink_to("missing"), "this is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), LEADS_OUT),
        (lambda path: path.symlink_to("../secret"), LEADS_OUT),
        (lambda path: path.symlink_to("chain"), LEADS_OUT),
    ],
    ids=["pipe", "folder", "broken link", "device", "link", "chain"],
)
def test_other_files_than_those_of_the_folder_are_not_read(tmp_path, name, make, reason):
    folder = tmp_path / "documents"
    folder.mkdir()
    (tmp_path / "secret").write_text("<u>\n")
    (folder / "chain").symlink_to(tmp_path / "secret")
    write(folder, {"a.txt": "text", "b.txt": "text", "b.key": "cats"} | ({"a.key": "x"} if name == "a.txt" else {}))
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises(XmlgpError) as error:
        list(DocumentFolder(str(folder)).documents(True))
    assert str(error.value) == f"{folder / name}: {reason}"
    if name == "a.txt":
        with pytest.raises(XmlgpError, match="/a.txt: this is "):
            next(DocumentFolder(str(folder)).documents(False))


def test_links_within_the_folder_are_followed(tmp_path):
    folder = tmp_path / "documents"
    (folder / "texts").mkdir(parents=True)
    write(folder / "texts", {"1": "one", "1 labels": "cats"})
    (folder / "a.txt").symlink_to("texts/1")
    (folder / "a.key").symlink_to(folder / "texts/1 labels")
    (tmp_path / "link").symlink_to("documents")
    for path in folder, tmp_path / "link":
        assert list(DocumentFolder(str(path)).documents(True)) == [Document(1, "a", "one", ["cats"])]
