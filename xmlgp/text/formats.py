"""The formats of corpora in one table: how each is recognised, how it is read, and what may be doubted of it.

A reader is a generator from the numbered lines of a file and the `Reading`. It yields a `Document`, or the
DataFormatError of one that it can go on after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmlgp.data.file_kinds import format_ending
from xmlgp.errors import DataFormatError
from xmlgp.text.delimited import DECLARED, delimiter_of, header_fields, read_csv, read_tsv
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document
from xmlgp.text.doubts import (
    note_odd,
    note_quoted,
    note_repeated,
    note_returns,
    note_unlikely,
    refuse_identifiers_as_labels,
    refuse_text_as_labels,
)
from xmlgp.text.headerless import (
    FASTTEXT_LABEL,
    OTHER_PREFIX,
    QUOTES,
    are_label_numbers,
    read_annif,
    read_fasttext,
    read_pecos,
    read_plain,
    tab_before_brackets,
)
from xmlgp.text.json_lines import read_json_lines

__all__ = ["FORMATS", "Format", "format_of_corpus", "has_corpus_ending"]

#: The start of an object, or of an array of objects.
JSON_START = re.compile(r"\s*(\{|\[\s*(\{|\]?\s*\Z))")


class Start(NamedTuple):
    """What tells a format: the first line, the columns, and whether options name some, so that there is a table."""

    line: str
    columns: Columns
    has_columns: bool


class Format(NamedTuple):
    """A format of corpora.

    Attributes
    ----------
    recognises : callable
        Whether a corpus is of this format, by its `Start`, if it is of none before in the table.
    read : callable
        The reader.
    endings : tuple of str
        Endings of names that tell this format alone.
    has_columns : bool
        Whether columns or fields hold the texts and labels, as `Columns` says.
    separator : str, optional
        What separates labels in a text, if no option says otherwise.
    doubts : tuple of callable
        What looks at the documents of training or evaluation on their way, and notes or refuses what was hardly meant:
        each is called with the documents and the `Reading`, and returns the documents.
    refusals : tuple of callable
        Those that are left out where an option names the format.
    """

    recognises: Callable[[Start], bool]
    read: Callable[..., Iterator[Document | DataFormatError]]
    endings: tuple[str, ...] = ()
    has_columns: bool = False
    separator: str | None = None
    doubts: tuple[Callable, ...] = ()
    refusals: tuple[Callable, ...] = ()


def _is_json(start: Start) -> bool:
    return bool(JSON_START.match(start.line))


def _is_tsv(start: Start) -> bool:
    if delimiter_of(start.line, start.columns, ("\t",)) and _may_be_header(start, "\t"):
        return True
    # The rows of a table without a header, which a model was trained on, are no lines of a text and its labels.
    return "\t" in start.line and (start.has_columns or bool(start.columns.header))


def _is_csv(start: Start) -> bool:
    if DECLARED.fullmatch(start.line):
        return True
    delimiter = delimiter_of(start.line, start.columns)
    return (delimiter is not None and _may_be_header(start, delimiter)) or start.has_columns


def _may_be_header(start: Start, delimiter: str) -> bool:
    """Return whether a line with the usual columns is a header: `text` alone may be a text."""
    return len(header_fields(start.line, delimiter)) > 1 or start.columns != Columns()


def _is_fasttext(start: Start) -> bool:
    return any(
        word.lstrip(QUOTES).startswith(FASTTEXT_LABEL) or OTHER_PREFIX.match(word) for word in start.line.split()
    )


def _is_lines(start: Start) -> bool:
    return "\t" not in start.line


def _is_pecos(start: Start) -> bool:
    # A document may have no labels, and one of Annif's has some text.
    first = start.line.partition("\t")[0]
    return not first or are_label_numbers(first)


def _is_annif(start: Start) -> bool:
    return start.line.count("\t") == 1 or tab_before_brackets(start.line) is not None


#: The formats by their names, in the order in which they are tried.
FORMATS = {
    "jsonl": Format(_is_json, read_json_lines, (".jsonl", ".ndjson", ".json"), True, doubts=(note_repeated,)),
    "tsv": Format(_is_tsv, read_tsv, has_columns=True, separator=";", doubts=(note_repeated,)),
    "csv": Format(_is_csv, read_csv, (".csv",), True, separator=";", doubts=(note_repeated,)),
    "fasttext": Format(_is_fasttext, read_fasttext, doubts=(note_unlikely, note_odd, note_returns)),
    "lines": Format(_is_lines, read_plain, doubts=(note_returns,)),
    "pecos": Format(_is_pecos, read_pecos, doubts=(note_unlikely,), refusals=(refuse_identifiers_as_labels,)),
    "annif": Format(
        _is_annif,
        read_annif,
        separator=" ",
        doubts=(note_unlikely, note_quoted, note_returns),
        refusals=(refuse_text_as_labels,),
    ),
}


def has_corpus_ending(path: str) -> bool:
    """Return whether a name alone says that a file is a corpus."""
    return _format_by_ending(path) is not None


def _format_by_ending(path: str) -> str | None:
    ending = format_ending(path)
    return next((name for name, known in FORMATS.items() if ending in known.endings), None)


def format_of_corpus(path: str, line: bytes, options: CorpusOptions = NO_OPTIONS, usual: Columns | None = None) -> str:
    """Return the name of the format of a corpus, one of `FORMATS`, by its name and its first line (bytes).

    The usual columns, those of a model, do not tell that there is a header.
    """
    if options.format:
        return options.format
    by_ending = _format_by_ending(path)
    if by_ending:
        return by_ending
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    start = Start(text, options.columns(usual), options.name_columns)
    # More tabs are those of a table.
    return next((name for name, known in FORMATS.items() if known.recognises(start)), "tsv")
