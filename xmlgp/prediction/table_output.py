"""Write the labels of points, and other tables, as an Excel workbook, by openpyxl, or as a Parquet file, by PyArrow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import BinaryIO

from xmlgp.data.file_kinds import PARQUET, XLSX
from xmlgp.errors import XmlgpError
from xmlgp.runtime.untrusted_text import escape_undecodable
from xmlgp.text.table_files import MOST_ROWS, table_library

__all__ = ["TABLES", "write_table"]

#: The kinds of files by the names of formats.
TABLES = {"xlsx": XLSX, "parquet": PARQUET}

#: Most characters of a cell, by the format of Excel; openpyxl would leave out the others.
MOST_CHARACTERS = 32_767

#: Characters that XML cannot have.
NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

#: Rows of a Parquet file that are written at a time.
ROWS = 1 << 16

#: The types of columns with numbers; others have texts.
NUMBERS = {
    **dict.fromkeys(["probability", "utility", "std", "precision", "recall", "F1"], "float64"),
    **dict.fromkeys(["training_points", "test_points", "predicted", "right"], "int64"),
}


def write_table(
    stream: BinaryIO, name: str, path: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write rows of texts and numbers with a header into a binary file, in the format called `name`.

    XmlgpError, which names the file by its path, if a row does not fit into the format. `table_library` must have been
    asked whether the library is there.
    """
    library = table_library(TABLES[name], path)
    write = _write_excel if name == "xlsx" else _write_parquet
    write(library, stream, path, header, rows)


def _write_excel(
    openpyxl: ModuleType, stream: BinaryIO, path: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    try:
        for number, row in enumerate(itertools.chain([header], rows), 1):
            if number > MOST_ROWS:
                raise XmlgpError(f"{path}: there are more rows than the {MOST_ROWS} of a sheet; write .parquet or .csv")
            sheet.append([_excel_cell(openpyxl, sheet, value, f"{path}: row {number}") for value in row])
    except BaseException:
        # Otherwise the temporary file of the sheet stays.
        sheet.close()
        raise
    book.save(stream)


def _excel_cell(openpyxl: ModuleType, sheet: object, value: object, where: str) -> object:
    """Return a cell; a text is never a formula, an error or a date, whatever it looks like."""
    if not isinstance(value, str):
        return value
    value = NO_XML.sub(" ", escape_undecodable(value))
    if len(value) > MOST_CHARACTERS:
        reason = f"a text has {len(value)} characters, more than the {MOST_CHARACTERS} of a cell"
        raise XmlgpError(f"{where}: {reason}; write .parquet or .csv")
    cell = openpyxl.cell.WriteOnlyCell(sheet, value)
    cell.data_type = "s"
    return cell


def _write_parquet(
    parquet: ModuleType, stream: BinaryIO, path: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    import pyarrow

    schema = pyarrow.schema([(name, NUMBERS.get(name, "string")) for name in header])
    with parquet.ParquetWriter(stream, schema) as writer:
        rows = iter(rows)
        while block := list(itertools.islice(rows, ROWS)):
            columns = (
                [value if name in NUMBERS or value is None else escape_undecodable(str(value)) for value in column]
                for name, column in zip(header, zip(*block, strict=True), strict=True)
            )
            arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.table(arrays, schema=schema))
