"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

import json
from typing import NamedTuple

__all__ = ["Columns", "Document"]


class Document(NamedTuple):
    """A document.

    Attributes
    ----------
    line : int
        Where it starts in its file, counted from 1.
    id : str, int or None
        Its identifier, if the corpus has one.
    text : str
    labels : list of str
        Names of labels. A name may occur twice.
    """

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
    id_needed: bool = True

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
