"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
import re
from pathlib import Path

from xmlgp.runtime.errors import XmlgpError

__all__ = ["documents_in", "files_read", "locate"]

#: Endings of corpora that no other data have.
CORPUS = "csv|tsv|jsonl|ndjson|xlsx|parquet"

#: Files that show that a folder holds data, not documents.
OF_DATA = re.compile(r"((train|test(-\d+)?)\.txt|.*\.svm)(\.gz)?|vectorizer\.json")

#: Other files that are read: corpora, names and dense features beside data, and the files of a model folder.
OTHERS = rf"(train|test)\.({CORPUS})(\.gz)?|(features|labels)\.txt|model\.json|data\.yaml|[^/]*\.np[yz]|arrays/.*"


def locate(path: str | os.PathLike[str], part: str) -> str:
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is. In a folder the file is PART.txt, PART.svm or PART with the ending of a corpus,
    or the only `*.PART.svm`; the training points may also be in the only other `.svm` file. Each may have the ending
    `.gz`. A folder of documents is returned as it is, or else the folder PART if that has documents. XmlgpError is
    raised if a folder has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    if documents_in(folder, labelled=part != "test"):
        return str(folder)
    rules = [rf"{part}\.(txt|svm|{CORPUS})", rf".+\.{part}\.svm"]
    if part == "train":
        rules.append(r"(?!(.*\.)?test\.).+\.svm")
    for rule in rules:
        names = sorted(file.name for file in folder.iterdir() if re.fullmatch(rf"({rule})(\.gz)?", file.name))
        if len(names) > 1:
            raise XmlgpError(f"{folder}: the {part} file may be {' or '.join(names)}; name the file")
        if names:
            return str(folder / names[0])
    if os.path.isdir(folder / part) and documents_in(folder / part):
        return str(folder / part)
    documents = "documents NAME.txt" if part == "test" else "documents NAME.txt with labels in NAME.tsv or NAME.key"
    text = f"{folder}: this folder contains no {part} file such as {part}.txt, {part}.svm or {part}.csv, "
    raise XmlgpError(f"{text}and no {documents}; name the file")


def documents_in(folder: str | os.PathLike[str], labelled: bool = False) -> list[str]:
    """Return the sorted NAMEs of the documents NAME.txt in a folder; none if it holds data.

    If `labelled`, none are returned unless at least one has labels, in NAME.tsv or in NAME.key.
    """
    files = {name for name in os.listdir(folder) if not name.startswith(".")}
    texts = {name.removesuffix(".txt") for name in files if name.endswith(".txt")}
    with_labels = {name for name in texts if not files.isdisjoint((f"{name}.tsv", f"{name}.key"))}
    of_data = {name.removesuffix(".txt") for name in filter(OF_DATA.fullmatch, files)}
    # `train.txt` may be a document among others, but not the only one.
    documents = of_data <= with_labels and (with_labels if labelled else texts) - of_data
    return sorted(texts) if documents else []


def files_read(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a folder of data, of documents or of a model that are read; others in it may be results."""
    documents = r"[^/]*\.(txt|tsv|key)" if documents_in(folder) else OF_DATA.pattern
    read = re.compile(f"{OTHERS}|{documents}")
    files = [*Path(folder).glob("*"), *Path(folder).glob("arrays/*")]
    return [file for file in files if read.fullmatch(file.relative_to(folder).as_posix())]
