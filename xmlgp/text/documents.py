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

    Attributes
    ----------
    text : tuple of str
        The texts of these columns are joined by spaces.
    labels : str
    separator : str or None
        Between the labels of a document; a blank is any whitespace. By default a semicolon in tables. A JSON string is
        one label by default.
    id : str or None
        By default `id`, if there is such a column.
    id_needed : bool
        Whether documents without the column of identifiers are refused.
    """

    text: tuple[str, ...] = ("text",)
    labels: str = "labels"
    separator: str | None = None
    id: str | None = None
    id_needed: bool = False

    def split(self, labels):
        """Return the names in a text of separated labels, or in a JSON list if there is no separator of the user's.

        Raises
        ------
        ValueError
            If the text is in brackets, but not a JSON list of names.
        """
        if self.separator is None and labels.startswith("[") and labels.endswith("]"):
            names = json.loads(labels)
            if not all(isinstance(name, str) for name in names):
                raise ValueError("an entry is not a name")
            return names
        separator = self.separator or ";"
        return labels.split() if separator.isspace() and separator != "\t" else labels.split(separator)


class CorpusOptions(NamedTuple):
    """What a user says about a corpus. Any of it makes a file a corpus; what is not given, the file or the model tells.

    Attributes
    ----------
    text, labels, separator, id
        As in `Columns`. Documents without the column of identifiers are refused if it is given here.
    format : str or None
        One of `xmlgp.text.corpus.FORMATS`.
    """

    text: tuple[str, ...] = ()
    labels: str | None = None
    separator: str | None = None
    id: str | None = None
    format: str | None = None

    @property
    def has_columns(self):
        """Whether any column is given."""
        return any(self[:-1])

    def columns(self, usual=None):
        """Return the `Columns` that are given, in place of the usual ones."""
        usual = usual or Columns()
        given = (own or other for own, other in zip(self[:-1], usual, strict=False))
        return Columns(*given, id_needed=bool(self.id))


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
