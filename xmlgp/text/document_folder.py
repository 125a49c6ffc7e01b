"""A folder of documents, as for Annif: `NAME.txt` has the text of a document, `NAME.tsv` or `NAME.key` its labels."""

import os
from pathlib import Path

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.locate import documents_in
from xmlgp.data.names import check_name
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document

__all__ = ["DocumentFolder"]


class DocumentFolder:
    """The documents of a folder, in the order of their names, which are their identifiers.

    `NAME.tsv` has `<URI>` and perhaps a tab and a label in each line, `NAME.key` a label; if both exist, the former
    counts. The files are UTF-8, or of another encoding.
    """

    def __init__(self, path, encoding=None, note=ignore):
        self.path, self._encoding, self._note = path, encoding, note

    def peek_line(self):
        """Return no line, as from an empty file: only files have one that tells their format."""
        return b""

    def waits(self):
        """Return False: the next document is there, so nothing needs to be answered at once."""
        return False

    answer_at_once = waits

    def documents(self, labelled):
        """Yield each `Document`; if they are read with labels, those without are left out, and a note says how many."""
        names = documents_in(self.path)
        files = dict(zip(names, map(self._labels_of, names), strict=True))
        if labelled:
            names = [name for name in names if files[name]]
            left_out = len(files) - len(names)
            if not names:
                raise XmlgpError(f"{self.path}: no document NAME.txt has labels, in NAME.tsv or NAME.key")
            if left_out:
                which = "document has" if left_out == 1 else "documents have"
                self._note(f"{self.path}: {left_out} {which} neither a .tsv nor a .key file with labels; left out")
        for name in names:
            self._check(self._text_of(name))
            if labelled:
                self._check(files[name])
        for name in names:
            text = "\n".join(line for _, line in self._lines(self._text_of(name)))
            yield Document(1, name, text, self._labels(files[name]) if labelled else [])

    def _text_of(self, name: str) -> str:
        return os.path.join(self.path, f"{name}.txt")

    def _labels_of(self, name):
        """Return the file with the labels of a document, or None."""
        files = (os.path.join(self.path, name + ending) for ending in (".tsv", ".key"))
        return next(filter(os.path.lexists, files), None)

    def _check(self, file: str) -> None:
        """Raise XmlgpError if a file would be waited for without end, or is a link to what the folder does not hold.

        Words of any file could otherwise get into a model, which others read.
        """
        if os.path.islink(file) and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.path)):
            advice = "copy the documents into the folder, or give the folder that they are in"
            raise XmlgpError(f"{file}: this is a symbolic link that leads out of the folder; {advice}")
        if not os.path.isfile(file):
            raise XmlgpError(f"{file}: this is not a regular file")

    def _labels(self, path):
        found = []
        for number, line in self._lines(path):
            label = line.strip()
            if label and path.endswith(".tsv"):
                label = line.split("\t")[0].strip()
                if not (label.startswith("<") and label.endswith(">")):
                    reason = f"the line must begin with a URI in brackets, `<URI><TAB>label`, not {excerpt(label)}"
                    raise DataFormatError(path, number, reason)
                label = label[1:-1]
            check_name(label, path, number)
            found.append(label)
        return found

    def _lines(self, path):
        with open_input(path) as stream:
            yield from decoded_lines(LineReader(stream, path, self._encoding))
