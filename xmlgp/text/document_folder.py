"""A folder of documents, as for Annif: `NAME.txt` has the text of a document, `NAME.tsv` or `NAME.key` its labels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from xmlgp.data.files import documents_in, open_input
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.names import check_name
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document, Reading
from xmlgp.text.vocabulary import uri_of

__all__ = ["WholeFiles", "read_folder"]


def read_folder(reading: Reading) -> Iterator[Document]:
    """Yield the documents of a folder, in the order of their names, which are their identifiers.

    `NAME.tsv` has a URI, perhaps in brackets, and perhaps a tab and a label in each line, `NAME.key` a label; if both
    exist, the former counts. If labels are read, documents without are left out, and a note says how many.
    """
    count = 0
    without_labels = 0
    for name in documents_in(reading.path):
        file = os.path.join(reading.path, name)
        labels: list[str] = []
        if reading.labelled:
            label_file = next(filter(os.path.lexists, (f"{file}.tsv", f"{file}.key")), None)
            if label_file is None:
                without_labels += 1
                continue
            labels = _labels(label_file, reading)
        text = "\n".join(line for _, line in _lines(f"{file}.txt", reading))
        count += 1
        # Bytes that are not UTF-8 could not be written.
        yield Document(1, os.fsencode(name).decode(errors="backslashreplace"), text, labels)
    if without_labels and not count:
        raise XmlgpError(f"{reading.path}: no document has labels, in NAME.tsv or NAME.key")
    if without_labels:
        documents = counted(without_labels, "document has", "documents have")
        reading.note(f"{reading.path}: {documents} no .tsv or .key file with labels; left out")
    if unread := len([name for name in os.listdir(reading.path) if name.endswith(".json")]):
        files = counted(unread, ".json file is", ".json files are")
        reading.note(f"{reading.path}: {files} not read; `jq -c . {reading.path}/*.json > FILE.jsonl` makes one corpus")


def _labels(path: str, reading: Reading) -> list[str]:
    labels = []
    for number, line in _lines(path, reading):
        label = line.strip()
        if label and path.endswith(".tsv"):
            uri = uri_of(line.split("\t")[0])
            if uri is None:
                reason = f"the line must begin with a URI, `<URI><TAB>label`, not {excerpt(label)}"
                raise DataFormatError(path, number, reason)
            label = uri
        check_name(label, path, number)
        labels.append(label)
    return labels


def _lines(path: str, reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file; XmlgpError if it is a link to what the folder does not hold, or no regular file.

    Words of any file could otherwise get into a model, which others read.
    """
    if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(reading.path)):
        advice = "copy the documents into the folder, or give the folder that they are in"
        raise XmlgpError(f"{path}: this is a symbolic link that leads out of the folder; {advice}")
    if not os.path.isfile(path):
        raise XmlgpError(f"{path}: this is not a regular file")
    yield from _lines_of(path, reading.encoding)


def _lines_of(path: str, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the numbers and lines of a file of text, or of `-`."""
    with open_input(path, encoding) as stream:
        yield from decoded_lines(LineReader(stream, path, encoding))


class WholeFiles(list[str]):
    """The texts of whole files, each one document that the name of its file identifies; `-` is numbered."""

    def __init__(self, paths: Sequence[str], encoding: str | None = None) -> None:
        super().__init__("\n".join(line for _, line in _lines_of(path, encoding)) for path in paths)
        self.ids: list[str | int] = [number if path == "-" else path for number, path in enumerate(paths, 1)]
