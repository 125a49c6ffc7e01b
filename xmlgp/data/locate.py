"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
import re
from pathlib import Path

from xmlgp.data.file_kinds import COMPRESSED_ENDINGS
from xmlgp.errors import XmlgpError

__all__ = ["documents_in", "files_read", "locate"]

#: Files of a data folder, which holds no documents.
OF_DATA = re.compile(r"((train|test(-\d+)?|validation)\.txt|.*\.svm)(\.(gz|bz2|xz|zst))?|vectorizer\.json")

#: Names beside data, and the files of a model folder.
OTHERS = re.compile(r"(features|labels)\.txt|model\.json|data\.yaml|[^/]*\.np[yz]|arrays/.*")


def locate(path, part):
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is. In a folder the file is PART.txt, PART.svm or the only `*.PART.svm`; the
    training points may also be in the only other `.svm` file. Each may have an ending of `COMPRESSED_ENDINGS`. A folder
    of documents is returned as it is. XmlgpError is raised if a folder has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    if documents_in(folder, labelled=part != "test"):
        return str(folder)
    for name in (f"{part}.txt", f"{part}.svm"):
        for file in (folder / f"{name}{ending}" for ending in ("", *COMPRESSED_ENDINGS)):
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
    documents = "documents NAME.txt with labels in NAME.tsv or NAME.key" if part != "test" else "documents *.txt"
    raise XmlgpError(f"{folder}: this folder contains no {expected}, with or without .gz, and no {documents}")


def documents_in(folder, labelled=False):
    """Return the sorted names of the documents NAME.txt in a folder, or none if they are files of a data folder.

    If they must be `labelled`, one of them at least has a file NAME.tsv or NAME.key.
    """
    files = {name for name in os.listdir(folder) if not name.startswith(".")}
    names = {name.removesuffix(".txt") for name in files if name.endswith(".txt")}
    with_labels = {name for name in names if not files.isdisjoint((f"{name}.tsv", f"{name}.key"))}
    of_data = {name.removesuffix(".txt") for name in filter(OF_DATA.fullmatch, files)}
    # `train.txt` may be a document among others, but not the only one.
    found = of_data <= with_labels and (with_labels if labelled else names) - of_data
    return sorted(names) if found else []


def files_read(folder):
    """Return the files of a folder of data, of documents or of a model that are read; others in it may be results."""
    documents = {f"{name}.{ending}" for name in documents_in(folder) for ending in ("txt", "tsv", "key")}
    files = {
        file.relative_to(folder).as_posix(): file
        for pattern in ("*", "arrays/*")
        for file in Path(folder).glob(pattern)
    }
    return [
        file for name, file in files.items() if name in documents or OF_DATA.fullmatch(name) or OTHERS.fullmatch(name)
    ]


def _libsvm_names(folder):
    """Return the files named `.svm`, also compressed, by their names without the ending of that, plain files first."""
    found = {}
    for ending in (*reversed(COMPRESSED_ENDINGS), ""):
        files = folder.glob(f"*.svm{ending}")
        found |= {file.name.removesuffix(ending): file for file in files if file.is_file()}
    return found
