"""A folder of documents, as for Annif: `NAME.txt` has the text of a document, `NAME.tsv` or `NAME.key` its labels.

Or `NAME.json` has an object with both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.locate import documents_in
from xmlgp.data.names import check_name
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, XmlgpError, raise_errors
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import escape_undecodable, excerpt
from xmlgp.text.documents import Columns, Document, Reading, StoredCorpus
from xmlgp.text.json_lines import SUBJECTS, read_json_lines
from xmlgp.text.json_objects import read_objects
from xmlgp.text.vocabulary_files import uri_of

__all__ = ["DocumentFolder"]

#: The usual columns.
USUAL = Columns()


class _Item(NamedTuple):
    """A document, and whether its labels are in the same file."""

    document: Document
    has_labels: bool


class DocumentFolder(StoredCorpus):
    """The documents of a folder, in the order of their names, which are their identifiers.

    `NAME.tsv` has a URI, perhaps in brackets, and perhaps a tab and a label in each line, `NAME.key` a label; if both
    exist, the former counts. `NAME.json` is an object as in JSON Lines, perhaps with an identifier; where it has no
    labels, those beside it count. The files are UTF-8, or of another encoding. `names` are the NAMEs of the documents
    that were read.
    """

    def __init__(self, path: str, encoding: str | None = None, note: Callable[[str], object] = ignore) -> None:
        super().__init__(path)
        self.names: list[str] = []
        self._encoding = encoding
        self._note = note

    def documents(self, labelled: bool, columns: Columns = USUAL) -> Iterator[Document]:
        """Yield each `Document`; if they are read with labels, those without are left out, and a note says how many.

        The fields of objects are those of `columns`. Their labels may be a text, which `xmlgp.text.label_rows` divides.
        """
        count = 0
        without_labels = 0
        without_text: list[DataFormatError] = []
        for name in documents_in(self.path):
            file = self._file(name, ".txt")
            item = self._read_object(name, labelled, columns)
            if isinstance(item, DataFormatError):
                without_text.append(item)
                item = None
            elif item and file:
                raise XmlgpError(f"{file}: {name}.json has the text of this document too; remove one of them")
            if not (item or file):
                continue
            document = self._with_labels(name, item, labelled)
            if document is None:
                without_labels += 1
            else:
                count += 1
                self.names.append(name)
                yield document
        self._note_left_out(count, without_labels, without_text)

    def _with_labels(self, name: str, item: _Item | None, labelled: bool) -> Document | None:
        """Return the document of NAME.json, or else that of NAME.txt, with labels; None without any."""
        if item is None:
            item = _Item(Document(1, None, self._text(os.path.join(self.path, f"{name}.txt")), []), False)
        document = item.document
        if document.id is None:
            document = document._replace(id=escape_undecodable(name))
        if labelled and not item.has_labels:
            file = self._labels_of(name)
            return document._replace(labels=self._labels(file)) if file else None
        return document

    def _note_left_out(self, count: int, without_labels: int, without_text: list[DataFormatError]) -> None:
        """Note what was left out beside `count` documents; raise an error if there are none."""
        if without_labels and not count:
            raise XmlgpError(f"{self.path}: no document has labels, in NAME.tsv, NAME.key or NAME.json")
        if without_text and not count:
            raise without_text[0]
        if without_labels:
            documents = counted(without_labels, "document has", "documents have")
            self._note(f"{self.path}: {documents} no .tsv, .key or .json file with labels; left out")
        if without_text:
            files = counted(len(without_text), ".json file is", ".json files are")
            self._note(f"{self.path}: {files} left out; the first: {without_text[0]}")

    def _file(self, name: str, ending: str) -> str | None:
        """Return the file of a document, or None if there is none."""
        file = os.path.join(self.path, name + ending)
        return file if os.path.lexists(file) else None

    def _labels_of(self, name: str) -> str | None:
        """Return the file with the labels of a document, or None."""
        return self._file(name, ".tsv") or self._file(name, ".key")

    def _read_object(self, name: str, labelled: bool, columns: Columns) -> _Item | DataFormatError | None:
        """Return the document in NAME.json, or the error that it has no text.

        None is for no such file. DataFormatError is raised if it is malformed.
        """
        path = self._file(name, ".json")
        if not path:
            return None
        content = self._text(path)
        objects = list(raise_errors(read_objects(iter([(1, content)]), path, lambda number, fields: (fields, []))))
        if len(objects) != 1:
            reason = f"this file has {len(objects)} objects, but a document is one; give a file in place of its folder"
            return DataFormatError(path, 1, reason)
        has_labels = bool(columns.flags) or _has_any(objects[0], {*columns.labels, SUBJECTS})
        (document,) = read_json_lines(iter([(1, content)]), Reading(path, columns, labelled and has_labels))
        if isinstance(document, DataFormatError):
            if _has_any(objects[0], set(columns.text)):
                raise document
            return document
        for label in document.labels if isinstance(document.labels, list) else []:
            check_name(label, path, 1)
        return _Item(document, has_labels)

    def _check(self, file: str) -> None:
        """Raise XmlgpError if a file would be waited for without end, or is a link to what the folder does not hold.

        Words of any file could otherwise get into a model, which others read.
        """
        if os.path.islink(file) and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.path)):
            advice = "copy the documents into the folder, or give the folder that they are in"
            raise XmlgpError(f"{file}: this is a symbolic link that leads out of the folder; {advice}")
        if not os.path.isfile(file):
            raise XmlgpError(f"{file}: this is not a regular file")

    def _labels(self, path: str) -> list[str]:
        labels = []
        for number, line in self._lines(path):
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

    def _text(self, path: str) -> str:
        return "\n".join(line for _, line in self._lines(path))

    def _lines(self, path: str) -> Iterator[tuple[int, str]]:
        self._check(path)
        with open_input(path) as stream:
            yield from decoded_lines(LineReader(stream, path, self._encoding))


def _has_any(fields: dict[str, object], names: set[str]) -> bool:
    """Return whether an object has one of the fields, or the first of the names on the way to one."""
    return any(name in fields or name.split(".")[0] in fields for name in names)
