"""Read a set of labels that a user names."""

from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.decoded_lines import decoded_lines

__all__ = ["read_label_set"]


def read_label_set(path, K, names):
    """Return the numbers of the labels in a file, a label a line; empty lines are skipped.

    Parameters
    ----------
    path : str
        A text file, a gzip file named `.gz`, or `-` for standard input.
    K : int
        The number of the model's labels.
    names : list of str or None
        Their names, which the file has; without names it has numbers from 0.

    Raises
    ------
    DataFormatError
        If a line is not a label of the model.
    """
    known, labels = {}, []
    for label, name in enumerate(names or map(str, range(K))):
        # Several labels can have the same name.
        known.setdefault(name, []).append(label)
    with open_input(path) as stream:
        for number, line in decoded_lines(LineReader(stream, path)):
            name = line.strip()
            if not name:
                continue
            if name not in known:
                expected = "" if names else f": a number below {K}"
                raise DataFormatError(path, number, f"{excerpt(name)} is not a label of the model{expected}")
            labels += known[name]
    return labels
