"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
from pathlib import Path

from xmlgp.errors import XmlgpError

__all__ = ["locate"]


def locate(path, part):
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is. In a folder the file is PART.txt, PART.svm or the only `*.PART.svm`; the
    training points may also be in the only other `.svm` file. Each may be gzipped and named `.gz`. XmlgpError is raised
    if a folder has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    for name in (f"{part}.txt", f"{part}.svm"):
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                return str(file)
    names = _libsvm_names(folder)
    candidates = {name: file for name, file in names.items() if name.endswith(f".{part}.svm")}
    expected = f"{part}.txt, {part}.svm or *.{part}.svm"
    if part == "train":
        candidates = candidates or {name: file for name, file in names.items() if not f".{name}".endswith(".test.svm")}
        expected = f"{part}.txt, {part}.svm, *.{part}.svm or other *.svm"
    if len(candidates) > 1:
        raise XmlgpError(f"{folder}: the {part} file may be {' or '.join(sorted(candidates))}; name the file")
    for file in candidates.values():
        return str(file)
    raise XmlgpError(f"{folder}: this folder contains no {expected}, with or without .gz")


def _libsvm_names(folder):
    """Return the files named `.svm` or `.svm.gz` by their names without `.gz`, plain files first."""
    compressed = {file.name.removesuffix(".gz"): file for file in folder.glob("*.svm.gz") if file.is_file()}
    return compressed | {file.name: file for file in folder.glob("*.svm") if file.is_file()}
