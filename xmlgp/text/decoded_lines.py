"""Decode the lines of a corpus."""

import codecs

from xmlgp.errors import DataFormatError

__all__ = ["decoded_lines"]

#: Lines that are decoded at a time.
LINES = 4096


def decoded_lines(reader):
    """Yield the number of each line, from 1, and its text without the line end; the last one may lack its newline.

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
        wrong = None
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            # The lines before may have other errors, which come first.
            start = block.rfind(b"\n", 0, error.start) + 1
            text = block[:start].decode()
            wrong = f"byte 0x{block[error.start]:02x} at byte {error.start - start + 1} of the line is not UTF-8"
        # Each line of the block ends with a newline.
        lines = text.replace("\r\n", "\n").split("\n")
        del lines[-1]
        yield from enumerate(lines, number)
        if wrong:
            raise DataFormatError(reader.path, number + len(lines), wrong)
