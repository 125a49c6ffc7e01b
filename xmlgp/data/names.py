"""Names of labels and of features: a text file that has the name of number i in line i + 1.

The file is UTF-8, with or without a byte order mark. Each line, including the last one, ends with a newline or with a
carriage return and a newline. The line of a label without a name is empty. Control characters are refused because names
are printed on terminals.
"""

import codecs
import os
import re

from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import NamesFormatError

__all__ = ["CONTROL", "check_name", "format_names", "parse_names", "read_feature_names", "read_label_names"]

#: C0, delete and C1: any of them can start a command to a terminal.
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def read_label_names(path, K):
    """Read the names of all labels.

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    K : int
        The number of labels.

    Returns
    -------
    list of str
        K names, without surrounding whitespace.

    Raises
    ------
    DataFormatError
        If the file is malformed or has more or fewer than K names. It names the line, and is a `NamesFormatError`
        unless gzip data are damaged.
    """
    return [name.strip() for name in _read(path, K, "label")]


def read_feature_names(path, D):
    """Read the names of all D features, such as words, as `read_label_names` reads those of labels.

    N-grams of characters may begin or end with a space, which stays.
    """
    return _read(path, D, "feature")


def format_names(names):
    """Return the content of a file of names, without control characters in them, as bytes."""
    return "".join([name + "\n" for name in names]).encode()


def parse_names(content, count):
    """Return the names in the untrusted content of a file (bytes), or None if these are not `count` names."""
    try:
        names = content.decode().split("\n")
    except UnicodeDecodeError:
        return None
    last = names.pop()
    return None if last or len(names) != count or any(map(CONTROL.search, names)) else names


def check_name(name, path, number):
    """Raise NamesFormatError if the name in line `number` of a file has a control character."""
    control = CONTROL.search(name)
    if control:
        reason = f"U+{ord(control[0]):04X} at column {control.start() + 1} is a control character"
        raise NamesFormatError(path, number, reason)


def _read(path, count, kind):
    path = os.fspath(path)
    names = []
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        while len(names) < count:
            line_number = reader.line_number
            text = reader.read_lines(count - len(names))
            if not text:
                reason = f"the file ends after {len(names)} of {count} {kind} names"
                raise NamesFormatError(path, line_number, reason)
            if line_number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            rows = text.split(b"\n")[:-1]
            names += [_name(row.removesuffix(b"\r"), path, number) for number, row in enumerate(rows, line_number)]
        line_number = reader.line_number
        if reader.read_lines(1):
            raise NamesFormatError(path, line_number, f"the file has more names than the {count} {kind}s")
    return names


def _name(row, path, number):
    """Return the name in a line, or raise NamesFormatError."""
    try:
        name = row.decode()
    except UnicodeDecodeError as error:
        reason = f"byte 0x{row[error.start]:02x} at byte {error.start + 1} of the line is not UTF-8"
        raise NamesFormatError(path, number, reason) from None
    check_name(name, path, number)
    return name
