"""Where the parts of a data set are: a user names a file, or a folder that holds those of training and of test."""

import os
from pathlib import Path

from xmlgp.errors import XmlgpError

__all__ = ["locate"]


def locate(path, part):
    """Return the file of a part of a data set.

    Parameters
    ----------
    path : str
        A file or `-`, which stand for themselves, or a folder with PART.txt, PART.svm or one file named
        `*.PART.svm`; the training points may also be in the only `.svm` file there is beside those. Each may be
        compressed, its name then ends in `.gz`.
    part : str
        "train" or "test".

    Returns
    -------
    str

    Raises
    ------
    XmlgpError
        Where a folder has no such file, or several that can be meant.
    """
    folder = Path(path)
    # Not folder.is_dir(): an empty name, as of a variable not set, is no folder, but Path takes it for the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    for name in (f"{part}.txt", f"{part}.svm"):
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return str(file)
    names = _libsvm_names(folder)
    candidates = {name: file for name, file in names.items() if name.endswith(f".{part}.svm")}
    looked_for = f"{part}.txt, {part}.svm or *.{part}.svm"
    if part == "train":
        candidates = candidates or {name: file for name, file in names.items() if not f".{name}".endswith(".test.svm")}
        looked_for = f"{part}.txt, {part}.svm, *.{part}.svm or other *.svm"
    if len(candidates) > 1:
        raise XmlgpError(f"{folder}: which is the {part} part, {' or '.join(sorted(candidates))}? Name the file")
    for file in candidates.values():
        return str(file)
    raise XmlgpError(f"{folder}: there is no {looked_for} in this folder, nor one of them with .gz behind it")


def _libsvm_names(folder):
    """Return the files named `.svm` or `.svm.gz` by their name without `.gz`; of two of one name the plain one."""
    compressed = {file.name.removesuffix(".gz"): file for file in folder.glob("*.svm.gz") if file.is_file()}
    return compressed | {file.name: file for file in folder.glob("*.svm") if file.is_file()}
