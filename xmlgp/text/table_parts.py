"""Copy the rows of an Excel workbook or a Parquet file into two of the same kind."""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.file_kinds import XLSX, FileKind
from xmlgp.text.table_files import first_sheet, movable, table_library

if TYPE_CHECKING:
    from openpyxl.cell import Cell

__all__ = ["copy_table"]


def copy_table(
    stream: BinaryIO, kind: FileKind, starts: Sequence[int], is_test: NDArray[np.bool_], outputs: Sequence[BinaryIO]
) -> None:
    """Copy a table into the outputs for training and for testing.

    `starts` are the rows of its points, from 1, and `is_test` says which are for testing. Rows before the first one go
    to both, and others follow the point before them.
    """
    library = table_library(kind, "the table")
    with movable(stream) as file:
        if kind is XLSX:
            _copy_excel(library, file, starts, is_test, outputs)
            return
        table = library.read_table(file, use_threads=False)
        # The first row of values is the second one, after the names.
        points = np.searchsorted(starts, np.arange(table.num_rows) + 2, side="right") - 1
        for output, rows in zip(outputs, (~is_test[points], is_test[points]), strict=True):
            library.write_table(table.filter(rows), output)


def _copy_excel(
    openpyxl: ModuleType,
    stream: BinaryIO,
    starts: Sequence[int],
    is_test: NDArray[np.bool_],
    outputs: Sequence[BinaryIO],
) -> None:
    source = first_sheet(openpyxl, stream, data_only=True)
    books = [openpyxl.Workbook(write_only=True) for _ in outputs]
    sheets = [book.create_sheet(source.title) for book in books]
    for number, row in enumerate(source.iter_rows(), 1):
        point = bisect.bisect_right(starts, number) - 1
        for sheet in sheets if point < 0 else [sheets[int(is_test[point])]]:
            sheet.append([_same_cell(openpyxl, sheet, cell) for cell in row])
    for book, output in zip(books, outputs, strict=True):
        # A compressed output cannot be moved within.
        content = io.BytesIO()
        book.save(content)
        output.write(content.getbuffer())


def _same_cell(openpyxl: ModuleType, sheet: object, cell: Cell) -> object:
    """Return a cell of the same value, type and number format; a text that begins with = is no formula."""
    copy = openpyxl.cell.WriteOnlyCell(sheet, cell.value)
    if cell.value is not None:
        copy.data_type = cell.data_type
        copy.number_format = cell.number_format
    return copy
