"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

import json
from typing import NamedTuple

from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["NO_OPTIONS", "Columns", "CorpusOptions", "Document", "absent"]

#: Most columns or fields that a message names.
SHOWN = 20

#: What the columns of a corpus hold, by the options that name them.
HELD = {"--text-column": "the text", "--label-column": "the labels", "--id-column": "the identifiers"}


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and its labels.

    The labels are names; a reader may yield them as one text, which `xmlgp.text.label_rows` splits.
    """

    line: int
    id: str | int | None
    text: str
    labels: list[str] | str


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

    def split(self, labels, usual=";"):
        """Return the names in a text of labels, with the usual separator if the user gave none; None is for one label.

        Without a separator of the user, the text may be a JSON list; ValueError if it is in brackets, but not such a
        list of names.
        """
        separator = self.separator or usual
        if separator is None:
            return [labels]
        if self.separator is None and labels.startswith("[") and labels.endswith("]"):
            names = json.loads(labels)
            if not all(isinstance(name, str) for name in names):
                raise ValueError("an entry is not a name")
            return names
        return labels.split() if separator.isspace() and separator != "\t" else labels.split(separator)


class CorpusOptions(NamedTuple):
    """What a user says about a corpus; any of it makes a file a corpus.

    The columns are those of `Columns`; documents without the column `id` are refused if it is given. `format` is one of
    `xmlgp.text.corpus.FORMATS`. `encoding` is one that Python knows, of text that is not UTF-8. With `merge_ids`, rows
    of the same identifier are one document with the labels of all. `encoder` is the name or the folder of the encoder
    of the texts, for a new model or where that of a model is now, and `download` allows to fetch it. What is not given,
    the file or the model tells.
    """

    text: tuple[str, ...] = ()
    labels: str | None = None
    separator: str | None = None
    id: str | None = None
    format: str | None = None
    encoding: str | None = None
    merge_ids: bool = False
    encoder: str | None = None
    download: bool = False

    def columns(self, usual=None):
        """Return the `Columns` that are given, in place of the usual ones."""
        given = (own or other for own, other in zip(self[:4], usual or Columns(), strict=False))
        return Columns(*given, id_needed=bool(self.id))


def absent(noun, name, found, option):
    """Return what is wrong where none of the columns, or fields, has a name that an option can change."""
    found = list(found)
    names = ", ".join(map(excerpt, found[:SHOWN])) + ", …" * (len(found) > SHOWN) or "none"
    return f"there is no {noun} {excerpt(name)}; the {noun}s are {names}; {option} says which has {HELD[option]}"


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
