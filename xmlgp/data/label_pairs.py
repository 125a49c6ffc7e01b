"""Read pairs of a point and a label, such as `filter_labels_test.txt` of the Extreme Classification Repository.

Where labels are documents as well, a document that is itself a label always has that label: models should not learn
from such pairs, and measures should not count them. Each line is `point label`, both numbers from 0.
"""

from __future__ import annotations

import functools
import os
import re

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.line_parser import report_first_mistake
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import FILTER, files_beside
from xmlgp.data.streams import open_input
from xmlgp.runtime.untrusted_text import quote

__all__ = ["pairs_beside", "read_pairs"]

PAIR = rb"[ \t]*(?:\d{1,18}[ \t]+\d{1,18}[ \t]*)?\r?\n"
PAIRS = re.compile(rb"(?:%b)*" % PAIR)
#: More lines than a block of text can have, so that `read_lines` returns whole blocks.
ALL = 2**62


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
    blocks = [np.empty((0, 2), np.int64)]
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        while True:
            line_number = reader.line_number
            text = reader.read_lines(ALL)
            if not text:
                return np.concatenate(blocks)
            # A text with a malformed line becomes one number, so that it fails the check for an even count.
            pairs = np.array(list(map(int, text.split())) if PAIRS.fullmatch(text) else [0], np.int64)
            if len(pairs) % 2 or (pairs[::2] >= N).any():
                report_first_mistake(text, path, line_number, functools.partial(_check_line, N=N))
            blocks.append(pairs.reshape(-1, 2))


def _check_line(line: bytes, N: int) -> None:
    """Raise ValueError if a line is neither blank nor a pair, or if its point is not below N."""
    if not re.fullmatch(PAIR, line + b"\n"):
        raise ValueError(f"{quote(line)} is not a pair of a point and a label, numbers from 0")
    if line.strip() and int(line.split()[0]) >= N:
        raise ValueError(f"point {int(line.split()[0])} is not below {N}, the number of points")
