"""Names of labels: a text file with a name a line, that of label i in line i + 1.

It is UTF-8, with or without a byte order mark. Lines, the last one too, end with a newline or with a carriage return
and a newline. A line may be empty, for a label without a name. Control characters are refused, for names are shown on
terminals.
"""

import codecs
import os
import re

from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import LabelNamesFormatError

__all__ = ["read_label_names"]

#: C0, delete and C1: a terminal may take any of them for the start of a command.
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
        K names, without blanks around them.

    Raises
    ------
    DataFormatError
        If the file is malformed or has more or fewer names, naming the line; a `LabelNamesFormatError` if not for
        damage beneath the text.
    """
    path = os.fspath(path)
    names = []
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        while len(names) < K:
            line = reader.line
            text = reader.take(K - len(names))
            if not text:
                raise LabelNamesFormatError(path, line, f"the file ends after {len(names)} names of {K} labels")
            if line == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            rows = text.split(b"\n")[:-1]
            names += [_name(row.removesuffix(b"\r"), path, number) for number, row in enumerate(rows, line)]
        line = reader.line
        if reader.take(1):
            raise LabelNamesFormatError(path, line, f"one name more than the {K} labels there are")
    return names


def _name(row, path, number):
    """Return the name in a line."""
    try:
        name = row.decode()
    except UnicodeDecodeError as error:
        reason = f"byte 0x{row[error.start]:02x} at byte {error.start + 1} of the line is not UTF-8"
        raise LabelNamesFormatError(path, number, reason) from None
    control = CONTROL.search(name)
    if control:
        reason = f"U+{ord(control[0]):04X} at column {control.start() + 1} is a control character"
        raise LabelNamesFormatError(path, number, reason)
    return name.strip()
