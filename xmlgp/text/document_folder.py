"""A folder of documents, as for Annif: `NAME.txt` has the text of a document, `NAME.tsv` or `NAME.key` its labels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.locate import documents_in
from xmlgp.data.names import check_name
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document, Reading, StoredCorpus
from xmlgp.text.vocabulary import uri_of

__all__ = ["DocumentFolder"]


class DocumentFolder(StoredCorpus):
    """The documents of a folder, in the order of their names, which are their identifiers.

    `NAME.tsv` has a URI, perhaps in brackets, and perhaps a tab and a label in each line, `NAME.key` a label; if both
    exist, the former counts. The files are UTF-8, or of another encoding.
    """

    def documents(self, reading: Reading) -> Iterator[Document]:
        """Yield each document; if labels are read, those without are left out, and a note says how many."""
        count = 0
        without_labels = 0
        for name in documents_in(self.path):
            file = os.path.join(self.path, name)
            labels = next(filter(os.path.lexists, (f"{file}.tsv", f"{file}.key")), None)
            if reading.labelled and labels is None:
                without_labels += 1
                continue
            text = "\n".join(line for _, line in self._lines(f"{file}.txt"))
            count += 1
            # Bytes that are not UTF-8 could not be written.
            document_id = os.fsencode(name).decode(errors="backslashreplace")
            yield Document(1, document_id, text, self._labels(labels) if labels and reading.labelled else [])
        if without_labels and not count:
            raise XmlgpError(f"{self.path}: no document has labels, in NAME.tsv or NAME.key")
        if without_labels:
            documents = counted(without_labels, "document has", "documents have")
            reading.note(f"{self.path}: {documents} no .tsv or .key file with labels; left out")
        if unread := len([name for name in os.listdir(self.path) if name.endswith(".json")]):
            files = counted(unread, ".json file is", ".json files are")
            reading.note(f"{self.path}: {files} not read; `jq -c . {self.path}/*.json > FILE.jsonl` makes one corpus")

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

    def _lines(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the lines of a file; XmlgpError if it is a link to what the folder does not hold, or no regular file.

        Words of any file could otherwise get into a model, which others read.
        """
        if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path)):
            advice = "copy the documents into the folder, or give the folder that they are in"
            raise XmlgpError(f"{path}: this is a symbolic link that leads out of the folder; {advice}")
        if not os.path.isfile(path):
            raise XmlgpError(f"{path}: this is not a regular file")
        with open_input(path, self.encoding) as stream:
            yield from decoded_lines(LineReader(stream, path, self.encoding))
