"""Tables in files that are not text: Excel workbooks and Parquet files, which pandas reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import date, time, timedelta
from numbers import Number
from typing import TYPE_CHECKING

from xmlgp.runtime.errors import XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.runtime.zip_archives import open_archive
from xmlgp.text.documents import PAGE, Document, Reading, StoredCorpus
from xmlgp.text.tables import documents_of_rows

if TYPE_CHECKING:
    import pandas

__all__ = ["TableFile", "is_table_file"]

#: Bytes that a workbook may expand to however small it is, and times its size that it may expand to beyond.
FREE_BYTES = 1 << 26
MOST_EXPANDED = 100

#: What has a text; lists, objects and bytes have none.
TEXTS = (str, Number, date, time, timedelta)

#: Rows of a Parquet file that are in memory at a time.
ROWS = 256

#: What a sheet may have that pandas reads as empty cells, and what to do.
UNREADABLE = {
    re.compile(rb"(</f>|<f [^>]*/>)(<v></v>|<v ?/>)?</c>"): "a formula has no value; open the workbook, and save it",
    re.compile(rb"<mergeCell "): "cells are merged, of which only the first has a value; unmerge and fill them",
    re.compile(rb"<c [^>]*\bt=\"e\""): "a cell has an error, such as #N/A; empty or correct it",
}


def is_table_file(path: str) -> bool:
    """Return whether a file is such a table, by the ending of its name."""
    return path.lower().endswith((".xlsx", ".parquet"))


class TableFile(StoredCorpus):
    """A table in a file that is not text: a Parquet file, or the first sheet of a workbook."""

    def documents(self, reading: Reading) -> Iterator[Document]:
        """Yield each document; its line is the number of its row."""
        return documents_of_rows(enumerate(self._rows(reading), 1), reading)

    def _rows(self, reading: Reading) -> Iterator[list[str]]:
        """Yield the names of columns and then the cells of each row as texts, which labels must be."""
        try:
            for number, frame in enumerate(self._frames(reading)):
                header = [str(name).strip() for name in frame.columns]
                if not number:
                    yield header
                columns = reading.columns
                read = {*columns.text, columns.id or "id", *columns.labels}
                for row in frame.itertuples(index=False, name=None):
                    for cell, name in zip(row, header, strict=True):
                        # Where labels are numbers, a sheet may show other digits.
                        kinds = str if name in columns.labels else TEXTS
                        if name in read and not isinstance(cell, kinds) and not _is_empty(cell):
                            noun = "label" if name in columns.labels else "cell"
                            reason = f"a {noun} is {excerpt(cell)}, not text; make the column text, or see {PAGE}"
                            raise XmlgpError(f"{self.path}: {reason}")
                    yield list(map(_as_text, row))
        except ImportError as error:
            raise XmlgpError(f"{self.path}: this needs {error.name}: pip install 'xmlgp[tables]'") from None
        except (MemoryError, OSError, XmlgpError):
            raise
        except Exception as error:  # of many kinds
            reason = excerpt(str(error).partition("\n")[0])
            raise XmlgpError(f"{self.path}: the table is damaged ({reason}); save it as CSV in UTF-8") from error

    def _frames(self, reading: Reading) -> Iterator[pandas.DataFrame]:
        import pandas

        if self.path.lower().endswith(".parquet"):
            from pyarrow import parquet

            for batch in parquet.ParquetFile(self.path).iter_batches(ROWS):
                # Whole numbers beside null would be floats, which have fewer digits.
                yield batch.to_pandas(integer_object_nulls=True)
            return
        with open_archive(self.path) as archive:
            if sum(member.file_size for member in archive.infolist()) > self._most_bytes():
                raise XmlgpError(f"{self.path}: it expands to more than {MOST_EXPANDED} times its size")
            for member in archive.namelist():
                content = archive.read(member) if member.startswith("xl/worksheets/") else b""
                for pattern, reason in UNREADABLE.items():
                    if pattern.search(content):
                        raise XmlgpError(f"{self.path}: {reason}")
        with pandas.ExcelFile(self.path, engine="openpyxl") as book:
            if len(book.sheet_names) > 1:
                reading.note(f"{self.path}: only the sheet {excerpt(book.sheet_names[0])} is read, the first one")
            # pandas would number columns of the same name.
            frame = pandas.read_excel(book, header=None, dtype=object, na_filter=False)
            yield frame[1:].set_axis(frame.iloc[0], axis="columns") if len(frame) else frame

    def _most_bytes(self) -> int:
        return max(FREE_BYTES, MOST_EXPANDED * os.path.getsize(self.path))


def _is_empty(value: object) -> bool:
    """Return whether a cell has no value: None, NaN, NaT or NA."""
    import pandas

    return not isinstance(value, str) and pandas.isna(value) is True


def _as_text(value: object) -> str:
    """Return a cell as a text; empty without a value."""
    if _is_empty(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
