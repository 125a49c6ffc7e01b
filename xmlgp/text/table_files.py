"""Tables in files that are not text: Excel workbooks, read by openpyxl, and Parquet files, read by PyArrow."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import itertools
import json
import math
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from xmlgp.data.dense_files import MOST_EXPANDED
from xmlgp.data.file_kinds import PARQUET, XLSX, FileKind, refusal
from xmlgp.data.streams import compression_of, file_size
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.runtime.zip_archives import open_archive
from xmlgp.text.documents import StoredCorpus
from xmlgp.text.json_lines import SUBJECT
from xmlgp.text.table_rows import Row

if TYPE_CHECKING:
    import zipfile

    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

__all__ = ["LIBRARIES", "MOST_ROWS", "TableFile", "as_text", "first_sheet", "movable", "open_table", "table_library"]

Item = TypeVar("Item")

#: The modules that read tables, by the kind of their files.
LIBRARIES = {XLSX: "openpyxl", PARQUET: "pyarrow.parquet"}

#: Bytes that a table may expand to however small its file is. Beyond, it may expand `MOST_EXPANDED` times.
FREE_BYTES = 1 << 26

#: The same for the parts of a workbook beside its sheets, such as texts that cells share, all of which are in memory.
FREE_PARTS = 1 << 23
#: Times its size that these parts may expand to.
MOST_PARTS = 20

#: Values that a Parquet file may have however small it is.
FREE_VALUES = 1 << 24
#: Values that it may have for each of its bytes: a few bytes can stand for many equal values.
MOST_VALUES = 1000

#: How the names of the sheets in a workbook begin.
SHEETS = "xl/worksheets/"

#: Rows of a Parquet file that are in memory at a time.
ROWS = 256

#: Most rows of a sheet, by the format of Excel.
MOST_ROWS = 1 << 20

#: Most bytes of a row of a sheet, which is in memory as a whole.
LONGEST_ROW = 1 << 22

#: What a cell of a sheet has where Excel could not compute its formula.
EXCEL_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"))


class TableFile(StoredCorpus):
    """A table in a file that is not text.

    Attributes
    ----------
    rows : iterator
        The number of each row, from 1, and its cells, or its error; the first row is the header.
    """

    def __init__(self, path: str, rows: Iterator[tuple[int, Row] | DataFormatError]) -> None:
        super().__init__(path)
        self.rows = rows


@contextlib.contextmanager
def open_table(
    stream: BinaryIO, kind: FileKind, path: str, note: Callable[[str], object] = ignore
) -> Iterator[TableFile]:
    """Yield the `TableFile` of a stream that `open_any` has opened."""
    library = table_library(kind, path)
    with movable(stream) as file:
        read = _excel_rows if kind is XLSX else _parquet_rows
        yield TableFile(path, _guarded(_without_empty(read(library, file, path, note)), kind, path))


@contextlib.contextmanager
def movable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream that the libraries can move within: of what is compressed or comes through a pipe, a copy."""
    if not compression_of(stream) and file_size(stream) is not None:
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy)
        copy.seek(0)
        yield copy  # type: ignore[misc, unused-ignore]  # on Windows, a wrapper of a file


def _without_empty(rows: Iterator[tuple[int, Row] | DataFormatError]) -> Iterator[tuple[int, Row] | DataFormatError]:
    """Yield rows that are not empty, without empty cells after the last column that has a name."""
    width = 0
    for item in rows:
        if isinstance(item, DataFormatError):
            yield item
            continue
        number, cells = item
        cells = list(cells)
        while cells and cells[-1] == "":
            cells.pop()
        if cells:
            width = width or len(cells)
            yield number, cells + [""] * (width - len(cells))


def _guarded(rows: Iterator[Item], kind: FileKind, path: str) -> Iterator[Item]:
    """Yield rows; errors of the library become XmlgpError, and its warnings nothing."""
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row = next(rows, None)
        except (MemoryError, XmlgpError):
            raise
        except Exception as error:  # of many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = excerpt(str(error).partition("\n")[0])
            raise refusal(kind, path, what=f"which is damaged or truncated ({reason})") from error
        if row is None:
            return
        yield row


def table_library(kind: FileKind, path: str) -> ModuleType:
    """Return the library that reads and writes a kind of tables; XmlgpError if it is not installed."""
    name = LIBRARIES[kind]
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise refusal(kind, path, what=f"which needs {package}: pip install 'xmlgp[tables]'") from None


def as_text(value: object) -> str | list[str]:
    """Return a value of a library as a text, or a list as texts without those that are empty.

    Numbers are as JSON has them; an object is its name if it is a label, and otherwise JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [as_text(entry) for entry in value if entry is not None]
        return [text if isinstance(text, str) else " ".join(text) for text in texts]
    if isinstance(value, dict):
        names = [value[key] for key in SUBJECT if value.get(key) is not None]
        return as_text(names[0]) if names else json.dumps(value, default=str, ensure_ascii=False)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _check_size(size: int, stream: BinaryIO, path: str, free: int = FREE_BYTES, times: int = MOST_EXPANDED) -> None:
    """Raise XmlgpError if a table of so many bytes is much larger than its file."""
    if size > max(free, times * os.fstat(stream.fileno()).st_size):
        limit = f"{free >> 20} MiB and {times} times its size"
        raise XmlgpError(f"{path}: it expands to more than {limit}; save it as CSV in UTF-8")


def _excel_rows(
    openpyxl: ModuleType, stream: BinaryIO, path: str, note: Callable[[str], object]
) -> Iterator[tuple[int, Row] | DataFormatError]:
    """Yield the rows of the first sheet that is shown; formulas count by the values that Excel has computed."""
    with open_archive(os.dup(stream.fileno())) as archive:
        sizes: Counter[bool] = Counter()
        for member in archive.infolist():
            sizes[member.filename.startswith(SHEETS)] += member.file_size
        _check_size(sizes[True], stream, path)
        _check_size(sizes[False], stream, path, FREE_PARTS, MOST_PARTS)
        has_formulas = _has_formulas(archive, path)
    sheet = first_sheet(openpyxl, stream, data_only=True)
    unread = len(sheet.parent.worksheets) - 1
    if unread:
        what = counted(unread, "other is", "others are")
        note(f"{path}: the sheet {excerpt(sheet.title)} is read, and {what} not; save another sheet as a file of its "
             "own to read it")  # fmt: skip
    formulas = first_sheet(openpyxl, stream, data_only=False).iter_rows() if has_formulas else itertools.repeat(())
    rows = zip(sheet.iter_rows(values_only=not has_formulas), formulas, strict=False)
    errors = 0
    for number, (row, formula) in enumerate(rows, 1):
        if number > MOST_ROWS:
            raise XmlgpError(f"{path}: the sheet has more than {MOST_ROWS} rows")
        if any(map(_is_uncomputed, row, formula)):
            reason = "a cell has a formula without a value; open the workbook in Excel or LibreOffice, and save it"
            yield DataFormatError(path, number, reason)
            continue
        values = [cell.value for cell in row] if has_formulas else row
        is_error = [isinstance(value, str) and value in EXCEL_ERRORS for value in values]
        errors += sum(is_error)
        yield number, ["" if wrong else as_text(_date(value)) for value, wrong in zip(values, is_error, strict=True)]
    if errors:
        cells = counted(errors, "cell has an error", "cells have errors")
        note(f"{path}: {cells} of Excel such as #N/A, and counted as empty")


def first_sheet(openpyxl: ModuleType, stream: BinaryIO, data_only: bool) -> Worksheet:
    """Return the first sheet of a workbook that is not hidden, to be read row by row."""
    stream.seek(0)
    book = openpyxl.load_workbook(stream, read_only=True, data_only=data_only, keep_links=False)
    sheet = next((sheet for sheet in book.worksheets if sheet.sheet_state == "visible"), None) or book.worksheets[0]
    # Some programs write wrong ones, and rows beyond them would be lost.
    sheet.reset_dimensions()
    return sheet


def _has_formulas(archive: zipfile.ZipFile, path: str) -> bool:
    """Return whether a sheet in the archive of a workbook has a formula; XmlgpError if a row would fill the memory."""
    has_formulas = False
    for member in archive.infolist():
        if member.filename.startswith(SHEETS) and member.filename.endswith(".xml"):
            size = 0  # of the row, so far
            rest = b""
            with archive.open(member) as sheet:
                while piece := sheet.read(1 << 16):
                    text = rest + piece
                    has_formulas = has_formulas or b"<f>" in text or b"<f " in text
                    size = size + len(piece) if b"</row" not in text else len(text) - text.rindex(b"</row")
                    # Comments and other encodings, which no program writes there, could hide the ends of rows.
                    if size > LONGEST_ROW or b"<!" in text or b"\0" in text:
                        raise XmlgpError(f"{path}: a sheet has a row of more than {LONGEST_ROW >> 20} MiB, or comments")
                    rest = text[-len("</row") :]
    return has_formulas


def _is_uncomputed(cell: Cell, formula: Cell) -> bool:
    """Return whether a cell has no value where a formula is; that of a formula whose value is empty is a text."""
    return formula.value is not None and cell.value is None and cell.data_type == "n"


def _date(value: object) -> object:
    """Return a value; a time without a time of day is a date, which Excel does not tell apart."""
    return value.date() if isinstance(value, datetime.datetime) and value.time() == datetime.time() else value


def _parquet_rows(
    parquet: ModuleType, stream: BinaryIO, path: str, note: Callable[[str], object]
) -> Iterator[tuple[int, Row]]:
    """Yield the names of the columns, and the rows."""
    file = parquet.ParquetFile(stream)
    texts = [field.name for field in file.schema_arrow if str(field.type) in ("string", "large_string", "binary")]
    # Otherwise each of equal texts, which a few bytes can stand for, would take memory.
    file = parquet.ParquetFile(stream, metadata=file.metadata, read_dictionary=texts)
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    _check_size(sum(group.total_byte_size for group in groups), stream, path)
    values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
    if values > max(FREE_VALUES, MOST_VALUES * os.fstat(stream.fileno()).st_size):
        raise XmlgpError(
            f"{path}: it has {values} values, more than {MOST_VALUES} for each byte; save it as CSV in UTF-8"
        )
    yield 1, file.schema_arrow.names
    number = 1
    for batch in file.iter_batches(ROWS, use_threads=False):
        for row in zip(*batch.columns, strict=True):
            number += 1
            yield number, [as_text(value.as_py()) for value in row]
