"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["NO_OPTIONS", "Columns", "CorpusOptions", "Document", "Reading", "absent", "unmatched"]

#: Most columns or fields that a message names.
SHOWN = 20

#: What the columns of a corpus hold, by the options that name them.
HELD = {"--text-column": "the text", "--label-column": "the labels", "--id-column": "the identifiers"}


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and its labels.

    The labels are names; a reader may yield a text or a tuple of texts instead, which `xmlgp.text.label_rows` divides.
    """

    line: int
    id: str | int | None
    text: str
    labels: list[str] | str | tuple[str, ...]


class Columns(NamedTuple):
    """The columns of a table with a header, or the fields of JSON objects; a dot leads into a nested object.

    The texts of several columns are joined by spaces, and a document has the labels of all columns of labels. Labels
    are separated by `separator`, where a blank is any whitespace; by default a semicolon in tables, and a JSON string
    is one label. The identifier is by default in `id`, if there is such a column. `flags` are patterns of the names
    of columns, or ranges `FIRST:LAST`, each column a label that the rows with 1 have, and `header` has the names of
    the columns of a table without a header. With `id_needed`, documents without their column of identifiers are
    refused.
    """

    text: tuple[str, ...] = ("text",)
    labels: tuple[str, ...] = ("labels",)
    separator: str | None = None
    id: str | None = None
    flags: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    id_needed: bool = False


class CorpusOptions(NamedTuple):
    """What a user says about a corpus; any of it makes a file a corpus.

    The columns are those of `Columns`, of which `header` is a text, separated by commas; documents without the column
    `id` are refused if it is given. `format` is one of `xmlgp.text.formats.FORMATS`. `encoding` is one that Python
    knows, of text that is not UTF-8. With `merge_ids`, rows of the same identifier are one document with the labels of
    all. `quotes` says whether fields in quotes may have what separates fields and lines; by default those of CSV may.
    `encoder` is the name or the folder of the encoder of the texts, for a new model or where that of a model is now,
    and `download` allows to fetch it. What is not given, the file or the model tells.
    """

    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    separator: str | None = None
    id: str | None = None
    flags: tuple[str, ...] = ()
    header: str | None = None
    format: str | None = None
    encoding: str | None = None
    merge_ids: bool = False
    quotes: bool | None = None
    encoder: str | None = None
    download: bool = False

    def columns(self, usual: Columns | None = None) -> Columns:
        """Return the `Columns` that are given, in place of the usual ones."""
        usual = usual or Columns()
        labels = (self.labels,) if isinstance(self.labels, str) else self.labels
        flags = (self.flags,) if isinstance(self.flags, str) else self.flags
        if flags and not labels:
            # The columns of flags are those of the labels.
            usual = usual._replace(labels=())
        elif labels and not flags:
            usual = usual._replace(flags=())
        return Columns(
            text=self.text or usual.text,
            labels=labels or usual.labels,
            separator=self.separator or usual.separator,
            id=self.id or usual.id,
            flags=flags or usual.flags,
            header=tuple(name.strip() for name in self.header.split(",")) if self.header else usual.header,
            id_needed=bool(self.id),
        )

    @property
    def name_columns(self) -> bool:
        """Whether they say what columns hold, or how, so that there is a table or JSON."""
        return self._replace(separator=None).columns() != Columns()


class Reading(NamedTuple):
    """How a corpus is read: its path for messages, its columns, and whether its documents must have labels.

    `quotes` are those of `CorpusOptions`, and `note` is called with what users should know. Unless `with_texts`, texts
    may be missing, as they are not looked at.
    """

    path: str
    columns: Columns
    labelled: bool = True
    quotes: bool | None = None
    note: Callable[[str], object] = ignore
    with_texts: bool = True


def absent(noun: str, name: str, found: Iterable[str], option: str) -> str:
    """Return what is wrong where none of the columns, or fields, has a name that an option can change."""
    names = _shown(found)
    return f"there is no {noun} {excerpt(name)}; the {noun}s are {names}; {option} says which has {HELD[option]}"


def unmatched(noun: str, pattern: str, found: Iterable[str]) -> str:
    """Return what is wrong where none of the columns, or fields, is one of a label (`Columns.flags`)."""
    return (
        f"no {noun} is {excerpt(pattern)}, as --label-columns says; the {noun}s are {_shown(found)}; --label-column "
        f"names a {noun} of labels in their place"
    )


def _shown(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(map(excerpt, names[:SHOWN])) + ", …" * (len(names) > SHOWN) or "none"


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
