"""Decode the lines of a corpus."""

import codecs

from xmlgp.errors import DataFormatError

__all__ = ["decoded_lines"]

#: Lines that are decoded at a time.
LINES = 4096


def decoded_lines(reader):
    """Yield the number of each line, from 1, and its text without the line end.

    Parameters
    ----------
    reader : LineReader
        At the first line. The last line may lack its newline.

    Raises
    ------
    DataFormatError
        If a line is not UTF-8.
    """
    reader.newline_needed = False
    while True:
        number = reader.line_number
        block = reader.read_lines(LINES)
        if not block:
            return
        if number == 1:
            block = block.removeprefix(codecs.BOM_UTF8)
        try:
            lines = block.decode().split("\n")
        except UnicodeDecodeError as error:
            raise _error(reader.path, number, block, error.start) from None
        # The block ends with a newline.
        for line in lines[:-1]:
            yield number, line[:-1] if line.endswith("\r") else line
            number += 1


def _error(path, number, block, place):
    start = block.rfind(b"\n", 0, place) + 1
    reason = f"byte 0x{block[place]:02x} at byte {place - start + 1} of the line is not UTF-8"
    return DataFormatError(path, number + block.count(b"\n", 0, place), reason)
