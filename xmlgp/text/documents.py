"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["NO_OPTIONS", "PAGE", "Columns", "CorpusOptions", "Document", "Reading", "StoredCorpus"]
__all__ += ["absent"]

#: The page of the documentation on what is not read.
PAGE = "docs/from-your-file.md"

#: Most columns or fields that a message names.
SHOWN = 20


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and the names of its labels."""

    line: int
    id: str | int | None
    text: str
    labels: list[str]


class StoredCorpus:
    """A corpus that is stored as a whole, not as lines of text; it answers what readers ask of a `LineReader`."""

    def __init__(self, path: str, encoding: str | None = None) -> None:
        self.path = path
        self.encoding = encoding

    def documents(self, reading: Reading) -> Iterator[Document]:
        """Yield each document; DataFormatError names a malformed one."""
        raise NotImplementedError

    def peek_line(self) -> bytes:
        """Return no line, as from an empty file: only text has one that tells its format."""
        return b""

    def waits(self) -> bool:
        """Return False: the next document is there, so nothing needs to be answered at once."""
        return False

    answer_at_once = waits


class Columns(NamedTuple):
    """The columns of a table with a header, or the fields of JSON objects.

    The texts of several columns are joined by spaces, and a document has the labels of all columns of labels. Labels
    are separated by `separator`, where a blank is any whitespace; by default a semicolon in tables, and a JSON string
    is one label. The identifier is by default in `id`, if there is such a column.
    """

    text: tuple[str, ...] = ("text",)
    labels: tuple[str, ...] = ("labels",)
    separator: str | None = None
    id: str | None = None


class CorpusOptions(NamedTuple):
    """What a user says about a corpus; any of it makes a file a corpus.

    The columns are those of `Columns`. `format` is one of `xmlgp.text.corpus.FORMATS`. `encoding` is one that Python
    knows, of text that is not UTF-8. What is not given, the file or the model tells.
    """

    text: str | tuple[str, ...] = ()
    labels: str | tuple[str, ...] = ()
    separator: str | None = None
    id: str | None = None
    format: str | None = None
    encoding: str | None = None

    def columns(self, usual: Columns | None = None) -> Columns:
        """Return the usual columns, with those that the options name in their place."""
        usual = usual or Columns()
        return Columns(
            _names(self.text) or usual.text,
            _names(self.labels) or usual.labels,
            self.separator or usual.separator,
            self.id or usual.id,
        )


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


class Reading(NamedTuple):
    """How a corpus is read: its path for messages, its columns, and whether its documents must have labels.

    `note` is called with what users should know. Unless `with_texts`, texts may be missing, as nothing looks at them.
    With `id_needed`, the column of identifiers may not.
    """

    path: str
    columns: Columns
    labelled: bool = True
    with_texts: bool = True
    id_needed: bool = False
    note: Callable[[str], object] = ignore

    def error(self, line: int, reason: str) -> DataFormatError:
        """Return the error of a malformed line."""
        return DataFormatError(self.path, line, reason)


def absent(noun: str, name: str, names: Sequence[str], option: str) -> str:
    """Return what is wrong where no column, or field, has a name that an option can change."""
    listed = ", ".join([*map(excerpt, names[:SHOWN]), *(["…"] if len(names) > SHOWN else [])]) or "none"
    return f"there is no {noun} {excerpt(name)}; the {noun}s are {listed}; {option} names another one"


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
