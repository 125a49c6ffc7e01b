"""A folder of documents is read in the order of names, and nothing outside of it."""

import os
from pathlib import Path

import pytest

from tests.text.corpora import documents_of
from xmlgp.runtime.errors import DataFormatError, NamesFormatError, XmlgpError
from xmlgp.text.documents import CorpusOptions, Document

FILES = {
    "b.txt": "\ufeffTwo\r\nlines",
    "b.tsv": "<http://a/1>\tcats\r\n\nhttp://a/2\n",
    "b.key": "not read",
    "a.txt": "one\u2028line",
    "a.key": " cats  and dogs \nä\n\n",
    "d.txt": "without",
    "e.json": "{}",
    ".hidden.txt": "",
    "README.md": "",
}
DOCUMENTS = [
    Document(1, "a", "one\u2028line", ["cats and dogs", "ä"]),
    Document(1, "b", "Two\nlines", ["http://a/1", "http://a/2"]),
]


def write(folder, files, encoding="utf-8"):
    for name, text in files.items():
        (folder / name).write_bytes(text.encode(encoding))


def read(folder, labelled=True, notes=None, **options):
    notes = [] if notes is None else notes
    options = CorpusOptions(**options)
    return documents_of(folder, options, labelled=labelled, note=notes.append)


def test_documents_have_their_names_texts_and_labels(tmp_path):
    write(tmp_path, FILES)
    notes = []
    assert read(tmp_path, notes=notes) == DOCUMENTS
    json_note = f"1 .json file is not read; `jq -c . {tmp_path}/*.json > FILE.jsonl` makes one corpus"
    assert notes == [
        f"{tmp_path}: 1 document has no .tsv or .key file with labels; left out",
        f"{tmp_path}: {json_note}",
    ]
    unlabelled = [*(found._replace(labels=[]) for found in DOCUMENTS), Document(1, "d", "without", [])]
    assert read(tmp_path, False) == unlabelled


@pytest.mark.parametrize("option", ["text", "labels", "id", "group"])
def test_a_folder_has_no_columns(tmp_path, option):
    write(tmp_path, FILES)
    with pytest.raises(DataFormatError, match="the format folder has no columns, so none is 'body'"):
        read(tmp_path, **{option: "body"})


def test_another_encoding(tmp_path):
    write(tmp_path, {"a.txt": "für", "a.key": "grün"}, "latin-1")
    assert read(tmp_path, encoding="latin-1") == [Document(1, "a", "für", ["grün"])]
    with pytest.raises(
        DataFormatError, match=r"a.key:1: byte 0xfc at character 3 of the line is not UTF-8; in cp1252 it reads 'grün'"
    ):
        read(tmp_path)


@pytest.mark.parametrize(
    ("files", "error", "reason"),
    [
        (
            {"a.tsv": "<u>\tx\nhttp://a\tcats\n\ncats\n"},
            DataFormatError,
            "/a.tsv:4: the line must begin with a URI, `<URI><TAB>label`, not 'cats'",
        ),
        ({"a.key": "x\ny\x1b\n"}, NamesFormatError, "/a.key:2: .* has U[+]001B, which no name can have"),
        ({}, XmlgpError, "no document has labels, in NAME.tsv or NAME.key"),
    ],
)
def test_a_mistake_is_reported_with_its_file(tmp_path, files, error, reason):
    write(tmp_path, {"a.txt": "text"} | files)
    with pytest.raises(error, match=reason):
        read(tmp_path)


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
        (lambda path: path.symlink_to("/dev/zero"), LEADS_OUT),
        (lambda path: path.symlink_to("../secret"), LEADS_OUT),
        (lambda path: path.symlink_to("chain"), LEADS_OUT),
    ],
    ids=["pipe", "folder", "device", "link", "chain"],
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
        read(folder)
    assert str(error.value) == f"{folder / name}: {reason}"


def test_links_within_the_folder_are_followed(tmp_path):
    folder = tmp_path / "documents"
    (folder / "texts").mkdir(parents=True)
    write(folder / "texts", {"1": "one", "1 labels": "cats"})
    (folder / "a.txt").symlink_to("texts/1")
    (folder / "a.key").symlink_to(folder / "texts/1 labels")
    (tmp_path / "link").symlink_to("documents")
    for path in folder, tmp_path / "link":
        assert read(path) == [Document(1, "a", "one", ["cats"])]


def test_names_that_are_not_utf_8_can_be_written(tmp_path):
    for name in b"caf\xe9.txt", b"caf\xe9.key", "café.txt".encode(), "café.key".encode():
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    assert [found.id for found in read(tmp_path)] == ["café", "caf\\xe9"]
