"""What a format of corpora is to the rest: one record, which `xmlgp.text.formats` lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Columns, Document, Reading

__all__ = ["Doubt", "Format", "Start"]

#: Looks at documents on their way, and notes or refuses what was hardly meant.
Doubt = Callable[[Iterator[Document], Reading], Iterator[Document]]


class Start(NamedTuple):
    """What tells a format: the first line, the columns, and whether options name some, so that there is a table."""

    line: str
    columns: Columns
    has_columns: bool


class Format(NamedTuple):
    """A format of corpora.

    Attributes
    ----------
    name : str
        What options call it.
    recognises : callable
        Whether a corpus is of this format, by its `Start`, if it is of none before in the table.
    read : callable
        The reader: a generator from the numbered lines of a file and the `Reading` to documents. In place of a document
        it may yield its error.
    endings : tuple of str
        Endings of names that tell this format alone.
    has_columns : bool
        Whether columns or fields hold the texts and labels, as `Columns` says.
    has_labels : bool
        Whether documents can have labels.
    separator : str, optional
        What separates labels in a text, if no option says otherwise.
    doubts : tuple of Doubt
    refusals : tuple of Doubt
        Those that are left out where an option names the format.
    """

    name: str
    recognises: Callable[[Start], bool]
    read: Callable[[Iterator[tuple[int, str]], Reading], Iterator[Document | DataFormatError]]
    endings: tuple[str, ...] = ()
    has_columns: bool = False
    has_labels: bool = True
    separator: str | None = None
    doubts: tuple[Doubt, ...] = ()
    refusals: tuple[Doubt, ...] = ()
