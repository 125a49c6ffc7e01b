"""Read pairs of a point and a label, such as `filter_labels_test.txt` of the Extreme Classification Repository.

Where labels are documents as well, a document that is itself a label always has that label: models should not learn
from such pairs, and measures should not count them. Each line is `point label`, both numbers from 0.
"""

from __future__ import annotations

import os
import re
from array import array

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.locate import FILTER, files_beside
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["pairs_beside", "read_pairs"]

PAIR = re.compile(r"[ \t]*([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]*")


def pairs_beside(path: str, part: str) -> list[str]:
    """Return the files of pairs in the folder of `path`, the file of the points of a part ("train" or "test").

    Files whose names contain the other part are left out.
    """
    other_names = ("test", "tst") if part == "train" else ("train", "trn")
    files = files_beside(path, FILTER)
    return [file for file in files if not any(name in os.path.basename(file) for name in other_names)]


def read_pairs(path: str | os.PathLike[str], N: int) -> NDArray[np.int64]:
    """Return pairs of a point below N and a label, an array pairs×2; DataFormatError names a malformed line."""
    path = os.fspath(path)
    pairs = array("q")
    with open_input(path) as stream:
        for number, line in decoded_lines(LineReader(stream, path), newline_needed=True):
            match = PAIR.fullmatch(line)
            if not match:
                if line.strip():
                    reason = f"{excerpt(line)} is not a pair of a point and a label, numbers from 0"
                    raise DataFormatError(path, number, reason)
                continue
            pairs.extend(map(int, match.groups()))
            if pairs[-2] >= N:
                raise DataFormatError(path, number, f"point {pairs[-2]} is not below {N}, the number of points")
    return np.frombuffer(pairs, np.int64).reshape(-1, 2)
