"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
import re
from pathlib import Path

from xmlgp.errors import XmlgpError

__all__ = ["documents_in", "files_read", "locate"]

#: Files of a data folder, which holds no documents.
OF_DATA = re.compile(r"((train|test(-\d+)?|validation)\.txt|.*\.svm)(\.gz)?|vectorizer\.json")

#: The file that makes a folder that of a model.
MODEL = "model.json"

#: Names beside data, and the files of a model folder.
OTHERS = re.compile(r"(features|labels)\.txt|model\.json|data\.yaml|[^/]*\.np[yz]|arrays/.*")


def locate(path, part):
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is. In a folder the file is PART.txt, PART.svm or the only `*.PART.svm`; the
    training points may also be in the only other `.svm` file. Each may be gzipped and named `.gz`. A folder of
    documents is returned as it is. XmlgpError is raised if a folder has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    if documents_in(folder, labelled=part != "test"):
        return str(folder)
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
    documents = "documents *.txt or *.json"
    if part != "test":
        documents = "documents NAME.txt with labels in NAME.tsv or NAME.key, or NAME.json"
    raise XmlgpError(f"{folder}: this folder contains no {expected}, with or without .gz, and no {documents}")


def documents_in(folder, labelled=False):
    """Return the sorted names of the documents NAME.txt or NAME.json in a folder, or none if it is one of data.

    If they must be `labelled`, one of them at least has a file NAME.tsv or NAME.key, or is NAME.json, which may have
    labels.
    """
    files = {name for name in os.listdir(folder) if not name.startswith(".")}
    texts = {name.removesuffix(".txt") for name in files if name.endswith(".txt")}
    objects = {name.removesuffix(".json") for name in files if name.endswith(".json")}
    if MODEL in files:
        objects = set()
    with_labels = {name for name in texts if not files.isdisjoint((f"{name}.tsv", f"{name}.key"))}
    of_data = {name.removesuffix(".txt") for name in filter(OF_DATA.fullmatch, files)}
    # `train.txt` may be a document among others, but not the only one.
    found = of_data <= with_labels and ((with_labels if labelled else texts) | objects) - of_data
    return sorted(texts | objects) if found else []


def files_read(folder):
    """Return the files of a folder of data, of documents or of a model that are read; others in it may be results."""
    documents = {f"{name}.{ending}" for name in documents_in(folder) for ending in ("txt", "json", "tsv", "key")}
    files = {
        file.relative_to(folder).as_posix(): file
        for pattern in ("*", "arrays/*")
        for file in Path(folder).glob(pattern)
    }
    return [
        file for name, file in files.items() if name in documents or OF_DATA.fullmatch(name) or OTHERS.fullmatch(name)
    ]


def _libsvm_names(folder):
    """Return the files named `.svm` or `.svm.gz` by their names without `.gz`, plain files first."""
    compressed = {file.name.removesuffix(".gz"): file for file in folder.glob("*.svm.gz") if file.is_file()}
    return compressed | {file.name: file for file in folder.glob("*.svm") if file.is_file()}
