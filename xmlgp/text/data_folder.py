"""The folder of vectorized corpora: data files, the names of features and labels, and the vectorizer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from xmlgp.data.dataset import Dataset
from xmlgp.data.names import format_names
from xmlgp.data.repository_format import write_dataset
from xmlgp.runtime.atomic_files import temporary_folder
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.locks import hold_lock
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names

__all__ = ["files_to_replace", "write_folder"]

#: The lock of the folder while its files are replaced.
LOCK = ".lock"

#: Names of files of test points.
TEST = re.compile(r"test(-\d+)?\.txt")


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, Dataset], names: Names) -> list[Path]:
    """Write points with the names of text, by the names of their files; return all files.

    If anything fails, the earlier files stay. A data set of text in the folder is replaced, with its test points.
    """
    folder = Path(folder)
    if names.vectorizer is None:
        raise ValueError("the points are not text")
    description = json.dumps(names.vectorizer.description(), indent=1, ensure_ascii=False) + "\n"
    contents = {
        FEATURES: format_names(names.features or ()),
        LABELS: format_names(names.labels or ()),
        VECTORIZER: description.encode(),
    }
    with temporary_folder(folder) as staged:
        for name, points in files.items():
            write_dataset(staged / name, points)
        for name, content in contents.items():
            (staged / name).write_bytes(content)
        written = [folder / name for name in (*files, *contents)]
        # Of two processes, the later one replaces all files of the other.
        with hold_lock(folder / LOCK, wait=True), uninterruptible:
            for file in files_to_replace(folder, ()):
                file.unlink(missing_ok=True)
            # The vectorizer makes the folder one of text: without it, a killed process leaves no mixture of two.
            for file in written:
                os.replace(staged / file.name, file)
    return written


def files_to_replace(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the files that `write_folder` replaces: those it writes, and test points of an earlier data set of text.

    These have other words. `names` are those of the files of points.
    """
    files = [folder / name for name in (VECTORIZER, FEATURES, LABELS, *names)]
    if files[0].exists():
        files += [file for file in folder.iterdir() if TEST.fullmatch(file.name)]
    return files
