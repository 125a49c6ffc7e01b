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
    assert notes == [f"{tmp_path}: 1 document has no .tsv, .key or .json file with labels; left out"]
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
            {"a.tsv": "<u>\tx\nhttp://a\tcats\n\ncats\n"},
            DataFormatError,
            "/a.tsv:4: the line must begin with a URI, `<URI><TAB>label`, not 'cats'",
        ),
        ({"a.key": "x\ny\x1b\n"}, NamesFormatError, "/a.key:2: U[+]001B at column 2 is a control character"),
        ({}, XmlgpError, "no document has labels, in NAME.tsv, NAME.key or NAME.json"),
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


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.key", "a.json"])
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


URIS = ["http://e/1", "http://e/2"]


def test_objects_are_documents_beside_texts(tmp_path):
    write(
        tmp_path,
        {
            "a.json": '\ufeff{\n "text": "several\\nlines",\n "subjects": [{"uri": "http://e/1", "label": "x"}]\n}\n',
            "b.txt": "text",
            "b.tsv": "http://e/1\tx\n<http://e/2>\n",
            "c.json": '{"id": "own", "text": "labels beside it", "metadata": {"text": 1}}',
            "c.key": "cats",
            "d.json": '{"text": null, "labels": []}',
            "e.json": '{"text": "without labels"}',
            "f.json": '[{"text": "in a list", "labels": "one label", "subjects": ["no"]}]',
        },
    )
    notes = []
    folder = DocumentFolder(str(tmp_path), note=notes.append)
    assert list(folder.documents(True)) == [
        Document(1, "a", "several\nlines", URIS[:1]),
        Document(1, "b", "text", URIS),
        Document(1, "own", "labels beside it", ["cats"]),
        Document(1, "d", "", []),
        Document(1, "f", "in a list", "one label"),
    ]
    assert notes == [f"{tmp_path}: 1 document has no .tsv, .key or .json file with labels; left out"]
    assert [found.id for found in folder.documents(False)] == ["a", "b", "own", "d", "e", "f"]
    assert len(notes) == 1


def test_other_objects_beside_texts_are_left_out(tmp_path):
    write(tmp_path, {"a.txt": "text", "a.key": "cats", "a.json": '{"year": 2024}', "notes.json": "[]"})
    notes = []
    expected = [Document(1, "a", "text", ["cats"])]
    assert list(DocumentFolder(str(tmp_path), note=notes.append).documents(True)) == expected
    assert notes == [
        f"{tmp_path}: 2 .json files are left out; the first: {tmp_path}/a.json:1: there is no field 'text'; the fields "
        "are 'year'; --text-column says which has the text"
    ]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.json": '{"title": "a"}', "b.json": '{"year": 1}'}, "/a.json:1: there is no field 'text'; the fields are "),
        ({"a.json": '{"title": "a"}\n{"title": "b"}'}, "/a.json:2: this line is not JSON: Extra data"),
        (
            {"a.json": '[{"text": "a"}, {"text": "b"}]'},
            "/a.json:1: this file has 2 objects, but a document is one; give a",
        ),
        ({"a.json": "[]"}, "/a.json:1: this file has 0 objects, but a document is one; give a"),
        ({"a.json": ""}, "/a.json:1: this file has 0 objects, but a document is one; give a"),
        ({"a.json": '{\n"text": "a",\nb}'}, "/a.json:3: this line is not JSON: "),
        ({"a.json": '{"text": "a", "labels": true}'}, "/a.json:1: labels is true, neither a list of labels nor text"),
        ({"a.json": '{"text": "a", "labels": ["x\\u0007"]}'}, "/a.json:1: U+0007 at column 2 is a control character"),
        ({"a.json": '{"text": "a"}'}, ": no document has labels, in NAME.tsv, NAME.key or NAME.json"),
        (
            {"a.json": '{"text": "b", "labels": []}', "a.txt": "b", "a.key": "x"},
            "/a.txt: a.json has the text of this document too; remove one of them",
        ),
    ],
)
def test_objects_that_are_no_documents_are_refused(tmp_path, files, reason):
    write(tmp_path, files)
    with pytest.raises(XmlgpError) as caught:
        list(DocumentFolder(str(tmp_path)).documents(True))
    assert reason in str(caught.value)


def test_names_that_are_not_utf_8_can_be_written(tmp_path):
    for name in b"caf\xe9.txt", b"caf\xe9.key", "café.txt".encode(), "café.key".encode():
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    assert [found.id for found in DocumentFolder(str(tmp_path)).documents(True)] == ["café", "caf\\xe9"]
