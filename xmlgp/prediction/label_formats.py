"""The formats in which labels of points are written, by the ending of the name of a file."""

from __future__ import annotations

from xmlgp.data.file_kinds import KINDS, compressed_ending, format_ending
from xmlgp.errors import UsageError
from xmlgp.prediction.table_output import TABLES
from xmlgp.text.table_files import table_library

__all__ = ["FORMATS", "TEXT_FORMATS", "check_format", "format_of"]

#: Formats that are text, which `LabelWriter` writes.
TEXT_FORMATS = ("jsonl", "tsv", "csv")

#: All formats; `write_table` writes the others.
FORMATS = (*TEXT_FORMATS, *TABLES)


def format_of(path: str) -> str | None:
    """Return the format of a file by the ending of its name, before that of a compression, or None."""
    ending = format_ending(path).removeprefix(".")
    return ending if ending in FORMATS else None


def check_format(path: str, name: str | None) -> None:
    """Raise XmlgpError if a file of this name cannot be written in a format; None is that of scores files."""
    ending = format_ending(path)
    kind = next((kind for kind in KINDS if ending and ending in kind.endings), None)
    if kind and format_of(path) is None:
        advice = f"end the name in {', '.join(f'.{name}' for name in FORMATS)}"
        raise UsageError(f"{path}: files named {ending} cannot be written; {advice}.")
    if kind and format_of(path) != name:
        raise UsageError(f"{path}: this is the name of {kind.name}, but the format is {name or 'text'}.")
    if name in TABLES:
        if compression := compressed_ending(path):
            raise UsageError(f"{path}: {TABLES[name].name} is compressed itself; leave out {compression}.")
        table_library(TABLES[name], path)
