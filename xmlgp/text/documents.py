"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["NO_OPTIONS", "Columns", "CorpusOptions", "Document", "Reading", "StoredCorpus", "absent", "unmatched"]

#: Most columns or fields that a message names.
SHOWN = 20

#: What the columns of a corpus hold, by the options that name them.
CONTENTS = {"--text-column": "the text", "--label-column": "the labels", "--id-column": "the identifiers"}


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and its labels.

    The labels are names; a reader may yield a text or a tuple of texts instead, which `xmlgp.text.label_rows` divides.
    Where readers keep the errors of malformed lines, such a document has its error, and no text.
    """

    line: int
    id: str | int | None
    text: str
    labels: list[str] | str | tuple[str, ...]
    error: DataFormatError | None = None


class StoredCorpus:
    """A corpus that is stored as a whole, not as lines of text; it answers what readers ask of a `LineReader`."""

    encoding: str | None = None
    errors: dict[int, DataFormatError] | None = None

    def __init__(self, path: str) -> None:
        self.path = path

    def peek_line(self) -> bytes:
        """Return no line, as from an empty file: only text has one that tells its format."""
        return b""

    def waits(self) -> bool:
        """Return False: the next document is there, so nothing needs to be answered at once."""
        return False

    answer_at_once = waits


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
    What is not given, the file or the model tells.
    """

    text: str | tuple[str, ...] = ()
    labels: str | tuple[str, ...] = ()
    separator: str | None = None
    id: str | None = None
    flags: str | tuple[str, ...] = ()
    header: str | None = None
    format: str | None = None
    encoding: str | None = None
    merge_ids: bool = False
    quotes: bool | None = None

    def columns(self, usual: Columns | None = None) -> Columns:
        """Return the usual columns, with those that the options name in their place."""
        usual = usual or Columns()
        labels = _names(self.labels)
        flags = _names(self.flags)
        if labels or flags:
            # Labels are in the columns that the options name, and in no others.
            usual = usual._replace(labels=labels, flags=flags)
        return usual._replace(
            text=_names(self.text) or usual.text,
            separator=self.separator or usual.separator,
            id=self.id or usual.id,
            header=tuple(name.strip() for name in self.header.split(",")) if self.header else usual.header,
            id_needed=bool(self.id),
        )

    @property
    def name_columns(self) -> bool:
        """Whether the options name columns, so that the corpus is a table or JSON."""
        return self._replace(separator=None).columns() != Columns()


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


class Reading(NamedTuple):
    """How a corpus is read: its path for messages, its columns, and whether its documents must have labels.

    `quotes` are those of `CorpusOptions`, and `note` is called with what users should know. Unless `with_texts`, texts
    may be missing, as nothing looks at them.
    """

    path: str
    columns: Columns
    labelled: bool = True
    quotes: bool | None = None
    note: Callable[[str], object] = ignore
    with_texts: bool = True

    def tell(self, sentence: str, line: int | None = None) -> None:
        """Note a sentence about the corpus, or about one of its lines."""
        self.note(f"{self.path}: {sentence}" if line is None else f"{self.path}:{line}: {sentence}")

    def error(self, line: int, reason: str, id: str | int | None = None) -> DataFormatError:
        """Return the error of a malformed line, with the identifier of its document if that is known."""
        return DataFormatError(self.path, line, reason, id)


def absent(noun: str, name: str, names: Iterable[str], option: str) -> str:
    """Return what is wrong where no column, or field, has a name that an option can change."""
    return (
        f"there is no {noun} {excerpt(name)}; the {noun}s are {_listed(names)}; "
        f"{option} says which has {CONTENTS[option]}"
    )


def unmatched(noun: str, pattern: str, names: Iterable[str]) -> str:
    """Return what is wrong where no column, or field, matches a pattern of labels (`Columns.flags`)."""
    return (
        f"no {noun} is {excerpt(pattern)}, as --label-columns says; the {noun}s are {_listed(names)}; --label-column "
        f"names a {noun} of labels in their place"
    )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    texts = [excerpt(name) for name in names[:SHOWN]]
    if len(names) > SHOWN:
        texts.append("…")
    return ", ".join(texts) or "none"


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
