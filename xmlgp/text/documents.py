"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

import json
from typing import NamedTuple

__all__ = ["NO_OPTIONS", "Columns", "CorpusOptions", "Document"]


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and names of labels."""

    line: int
    id: str | int | None
    text: str
    labels: list[str]


class Columns(NamedTuple):
    """The columns of a table with a header, or the fields of JSON objects; a dot leads into a nested object.

    The texts of several columns are joined by spaces. Labels are separated by `separator`, where a blank is any
    whitespace; by default a semicolon in tables, and a JSON string is one label. The identifier is by default in `id`,
    if there is such a column. With `id_needed`, documents without their column of identifiers are refused.
    """

    text: tuple[str, ...] = ("text",)
    labels: str = "labels"
    separator: str | None = None
    id: str | None = None
    id_needed: bool = False

    def split(self, labels):
        """Return the names in a text of separated labels, or in a JSON list if there is no separator of the user's.

        ValueError if the text is in brackets, but not a JSON list of names.
        """
        if self.separator is None and labels.startswith("[") and labels.endswith("]"):
            names = json.loads(labels)
            if not all(isinstance(name, str) for name in names):
                raise ValueError("an entry is not a name")
            return names
        separator = self.separator or ";"
        return labels.split() if separator.isspace() and separator != "\t" else labels.split(separator)


class CorpusOptions(NamedTuple):
    """What a user says about a corpus; any of it makes a file a corpus.

    The columns are those of `Columns`; documents without the column `id` are refused if it is given. `format` is one of
    `xmlgp.text.corpus.FORMATS`. `encoding` is one that Python knows, of text that is not UTF-8. What is not given, the
    file or the model tells.
    """

    text: tuple[str, ...] = ()
    labels: str | None = None
    separator: str | None = None
    id: str | None = None
    format: str | None = None
    encoding: str | None = None

    def columns(self, usual=None):
        """Return the `Columns` that are given, in place of the usual ones."""
        given = (own or other for own, other in zip(self[:4], usual or Columns(), strict=False))
        return Columns(*given, id_needed=bool(self.id))


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
