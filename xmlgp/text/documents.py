"""What a corpus consists of, and which columns of a table or fields of an object hold it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["NO_OPTIONS", "PAGE", "Columns", "CorpusOptions", "Document", "Reading"]

#: The page of the documentation on what is not read.
PAGE = "docs/other-tools.md"

#: Most columns or fields that a message names.
SHOWN = 20


class Document(NamedTuple):
    """A document: the line where it starts, its identifier if it has one, its text, and the names of its labels.

    `group` is the same number for the documents of a group, and 0 without one.
    """

    line: int
    id: str | int | None
    text: str
    labels: list[str]
    group: int = 0


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

    The columns are those of `Columns`, and the column `group`: documents that have the same value there are never
    divided, neither into training and test points nor into points that training uses and holds out. `format` is one of
    `xmlgp.text.corpus.FORMATS`. `encoding` is one that Python knows, of text that is not UTF-8. What is not given, the
    file or the model tells.
    """

    text: str | tuple[str, ...] = ()
    labels: str | tuple[str, ...] = ()
    separator: str | None = None
    id: str | None = None
    format: str | None = None
    encoding: str | None = None
    group: str | None = None

    def columns(self, usual: Columns | None = None) -> Columns:
        """Return the usual columns, with those that the options name in their place."""
        usual = usual or Columns()
        text = (self.text,) if isinstance(self.text, str) else self.text
        labels = (self.labels,) if isinstance(self.labels, str) else self.labels
        return Columns(
            text or usual.text, labels or usual.labels, self.separator or usual.separator, self.id or usual.id
        )


class Reading(NamedTuple):
    """How a corpus is read: its path for messages, its columns, and whether its documents must have labels.

    With `id_needed`, the column of identifiers may not be missing; nor may the column `group`. `note` is called with
    what users should know.
    """

    path: str
    columns: Columns
    labelled: bool = True
    id_needed: bool = False
    encoding: str | None = None
    note: Callable[[str], object] = ignore
    group: str | None = None

    def error(self, line: int, reason: str) -> DataFormatError:
        """Return the error of a malformed line."""
        return DataFormatError(self.path, line, reason)

    @property
    def names(self) -> set[str]:
        """The columns that are read, if they are there."""
        labels = self.columns.labels if self.labelled else ()
        return {*self.columns.text, *labels, self.columns.id or "id", self.group or "id"}

    def document(self, line: int, fields: Mapping[str, Any], noun: str = "field") -> Document:
        """Return the document of the fields of an object, or of the cells of a row; messages call one a `noun`.

        What is null is empty, and a whole number counts as text. The labels are texts that may have several names.
        """

        def value(name: str, option: str) -> Any:
            if name in fields:
                return fields[name]
            names = [*map(excerpt, list(fields)[:SHOWN]), *(["…"] if len(fields) > SHOWN else [])]
            advice = (
                "columns are separated by commas, or by tabs in .tsv: save the file so, or as .xlsx"
                if len(fields) == 1 and re.search("[;\t]", "".join(fields))
                else f"{option} names another one, and {PAGE} has other files"
            )
            raise self.error(
                line, f"there is no {noun} {excerpt(name)}; the {noun}s are {', '.join(names) or 'none'}; {advice}"
            )

        def text(value: Any, name: str) -> str:
            if value is None:
                return ""
            if not isinstance(value, str) and type(value) is not int:
                reason = f"{name} is {excerpt(value)}, which is not text; {PAGE} has lines of jq that make text of it"
                raise self.error(line, reason)
            return str(value)

        def whole(value: Any) -> Any:
            # pandas writes whole numbers with decimals where other rows have none.
            return int(value) if isinstance(value, float) and value.is_integer() else value

        texts = [text(value(name, "--text-column"), name) for name in self.columns.text]
        labels: list[str] = []
        for name in self.columns.labels if self.labelled else ():
            found = value(name, "--label-column")
            labels += [text(label, f"a label in {name}") for label in (found if isinstance(found, list) else [found])]
        name = self.columns.id or "id"
        id = whole(value(name, "--id-column") if self.id_needed else fields.get(name))
        if id is not None and type(id) not in (str, int):
            raise self.error(line, f"{name} is {excerpt(id)}, neither text nor an integer")
        group = text(whole(value(self.group, "--group-column of split")), self.group) if self.group else ""
        # The same in every file, and 0 without a value; that two groups have the same number by chance does no harm.
        number = zlib.crc32(" ".join(group.split()).encode())
        return Document(line, id, " ".join(texts), labels, number)


#: The file, and the columns of a model, determine how a corpus is read.
NO_OPTIONS = CorpusOptions()
