"""The formats of corpora in one table; a format is one module with a `Format`, and one line here."""

from __future__ import annotations

from xmlgp.data.file_kinds import format_ending
from xmlgp.text.delimited import CSV, TSV
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions
from xmlgp.text.format import Start
from xmlgp.text.headerless import ANNIF, FASTTEXT, LINES, PECOS
from xmlgp.text.json_lines import JSON_LINES

__all__ = ["FORMATS", "format_of_corpus", "has_corpus_ending"]

#: The formats by their names, in the order in which they are tried.
FORMATS = {format.name: format for format in (JSON_LINES, TSV, CSV, FASTTEXT, LINES, PECOS, ANNIF)}


def has_corpus_ending(path: str) -> bool:
    """Return whether a name alone says that a file is a corpus."""
    return _format_by_ending(path) is not None


def _format_by_ending(path: str) -> str | None:
    ending = format_ending(path)
    return next((name for name, format in FORMATS.items() if ending in format.endings), None)


def format_of_corpus(path: str, line: bytes, options: CorpusOptions = NO_OPTIONS, usual: Columns | None = None) -> str:
    """Return the name of the format of a corpus, one of `FORMATS`, by its name and its first line (bytes).

    The usual columns, those of a model, do not tell that there is a header.
    """
    name = options.format or _format_by_ending(path)
    if name:
        return name
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    start = Start(text, options.columns(usual), options.name_columns)
    # More tabs than those of a text and its labels are those of a table.
    return next((name for name, format in FORMATS.items() if format.recognises(start)), TSV.name)
