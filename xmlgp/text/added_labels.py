"""Read the names of labels that a model is to have besides its own."""

import os

from xmlgp.data.lines import LineReader
from xmlgp.data.names import check_name
from xmlgp.data.streams import open_input
from xmlgp.errors import NamesFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.decoded_lines import decoded_lines

__all__ = ["read_label_names"]


def read_label_names(path, names, K):
    """Read the names of new labels, one a line, and append those that are new to the names of a model (`Names`).

    Parameters
    ----------
    path : str or Path
        A text file, a gzip file named `.gz`, or `-` for standard input.
    names : Names
    K : int
        The number of the model's labels.

    Raises
    ------
    DataFormatError
        If the model has no names of labels, or if a line is empty, is not UTF-8, has a control character, or has a name
        that an earlier line has. It names the line.
    """
    path = os.fspath(path)
    if names.labels is None:
        model = f"the model of {K} label{'s' * (K != 1)}"
        raise NamesFormatError(path, 1, f"{model} has no names of labels, so none can be added")
    lines = {}
    with open_input(path) as stream:
        for number, line in decoded_lines(LineReader(stream, path)):
            check_name(line, path, number)
            name = line.strip()
            if not name:
                raise NamesFormatError(path, number, "this line is empty, but each line must have the name of a label")
            if name in lines:
                raise NamesFormatError(path, number, f"label {excerpt(name)} is in line {lines[name]} already")
            lines[name] = number
    if not lines:
        raise NamesFormatError(path, 1, "the file is empty")
    # A command that was interrupted may be run again.
    known = set(names.labels)
    return names._replace(labels=[*names.labels, *(name for name in lines if name not in known)])
