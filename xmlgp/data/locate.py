"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from xmlgp.data.file_kinds import compressed_ending
from xmlgp.runtime.errors import XmlgpError

__all__ = ["FILTER", "LABELS_OF", "documents_in", "files_beside", "files_read", "locate", "other_part", "part_of"]
__all__ += ["splits_beside"]

#: How the name of a file of labels alone ends, by how that of the file of the features of the same points ends.
LABELS_OF = {"_X_Xf": "_X_Y", "_ft_mat": "_lbl_mat"}
FEATURES_OF = {labels: features for features, labels in LABELS_OF.items()}
PART = re.compile(rf"(?P<name>.*)(?P<ending>{'|'.join([*LABELS_OF, *FEATURES_OF])})\.txt(\.gz)?")
#: What the names of such files start with, perhaps after a name and an underscore, in place of "train" and so on.
SHORT = {"train": "trn", "test": "tst"}

#: Files that list which points of NAME_data.txt are training points, by their numbers.
SPLIT = re.compile(r"(.*[_-])?(tr|trn|train)_?split\.txt(\.gz)?", re.IGNORECASE)

#: Files of pairs of a point and a label.
FILTER = re.compile(r"(.*_)?filter_labels(_.*)?\.txt(\.gz)?")

#: Files that show that a folder holds data, not documents.
OF_DATA = re.compile(rf"((train|test(-\d+)?)\.txt|.*\.svm)(\.gz)?|vectorizer\.json|{PART.pattern}|{FILTER.pattern}")

#: Endings of corpora that no other data have.
CORPUS = r"\.(csv|tsv|jsonl|ndjson|xlsx|parquet)"

#: Other files that are read: corpora, names and dense features beside data, and the files of a model folder.
OTHERS = re.compile(
    rf"(train|test){CORPUS}(\.gz)?|(features|labels|Xf|Yf)\.txt|model\.json|data\.yaml|[^/]*\.np[yz]|"
    "arrays/.*"
)


def locate(path: str | os.PathLike[str], part: str) -> str:
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is, except that a file of labels alone is replaced by the file of their features, if
    that is beside it. In a folder the file
    is PART.txt, PART.svm, trn_X_Xf.txt or tst_X_Xf.txt, the only `*.PART.svm`, or PART with the ending of a corpus; the
    training points may also be in the only other `.svm` file. Each may have the ending `.gz`. A folder
    of documents is returned as it is, or else the folder PART if that has documents. XmlgpError is raised if a folder
    has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        is_labels = part_of(path) == "labels" and os.path.isfile(path)
        return (is_labels and other_part(path)) or str(path)
    if documents_in(folder, labelled=part != "test"):
        return str(folder)
    files = _files_by_name(folder)
    start = re.compile(f"(.*_)?({part}|{SHORT[part]})")
    rules: list[Callable[[str], object]] = [
        lambda name: name == f"{part}.txt",
        lambda name: name == f"{part}.svm",
        lambda name: _is_part(files[name].name, start, LABELS_OF),
        lambda name: _is_part(files[name].name, start, FEATURES_OF),
        lambda name: name.endswith(f".{part}.svm"),
        re.compile(f"{part}{CORPUS}").fullmatch,
    ]
    expected = f"{part}.txt, {part}.svm, {SHORT[part]}_X_Xf.txt or *.{part}.svm"
    if part == "train":
        rules.append(lambda name: name.endswith(".svm") and not f".{name}".endswith(".test.svm"))
        expected = expected.replace(" or ", ", ") + " or other *.svm"
    for rule in rules:
        names = sorted(filter(rule, files))
        if len(names) > 1:
            raise XmlgpError(f"{folder}: the {part} file may be {' or '.join(names)}; name the file")
        if names:
            return str(files[names[0]])
    if os.path.isdir(folder / part) and documents_in(folder / part):
        return str(folder / part)
    documents = "documents NAME.txt" if part == "test" else "documents NAME.txt with labels in NAME.tsv or NAME.key"
    text = f"{folder}: this folder contains no {expected}, with or without .gz, and no {documents}"
    if any(folder.glob("*.json")):
        text = f"{text}; `jq -c . {folder}/*.json > FILE.jsonl` makes a corpus of objects"
    raise XmlgpError(text)


def part_of(path: str | os.PathLike[str]) -> str | None:
    """Return what a file has alone, "features" or "labels", by its name; None if it has both."""
    match = PART.fullmatch(os.path.basename(path))
    return match and ("features" if match["ending"] in LABELS_OF else "labels")


def other_part(path: str | os.PathLike[str], missing: bool = False) -> str | None:
    """Return the file of the labels for a file of features alone, or of the features for one of labels, or None.

    With `missing`, its usual name is returned whether or not there is such a file.
    """
    folder, name = os.path.split(path)
    match = PART.fullmatch(name)
    if match is None:
        return None
    other = os.path.join(folder, f"{match['name']}{(LABELS_OF | FEATURES_OF)[match['ending']]}.txt")
    return other if missing else next(filter(os.path.isfile, (other, f"{other}.gz")), None)


def files_beside(path: str, pattern: re.Pattern[str]) -> dict[str, re.Match[str]]:
    """Return the files in the folder of the file `path` whose names match a pattern, in order, with their matches."""
    folder = os.path.dirname(path)
    names = sorted(os.listdir(folder or os.curdir)) if os.path.isfile(path) else []
    return {os.path.join(folder, name): match for name in names if (match := pattern.fullmatch(name))}


def splits_beside(path: str) -> list[str]:
    """Return the files of splits that belong to a file of points, by their names, and are in the same folder."""
    name = os.path.basename(path).lower()
    splits = files_beside(path, SPLIT)
    return [file for file, match in splits.items() if name.startswith((match[1] or "").lower().rstrip("_-"))]


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
    documents = {f"{name}.{ending}" for name in documents_in(folder) for ending in ("txt", "tsv", "key")}
    files = {
        file.relative_to(folder).as_posix(): file
        for pattern in ("*", "arrays/*")
        for file in Path(folder).glob(pattern)
    }
    return [
        file for name, file in files.items() if name in documents or OF_DATA.fullmatch(name) or OTHERS.fullmatch(name)
    ]


def _files_by_name(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their names without the ending of compressed files; plain files are preferred."""
    endings = {file: compressed_ending(file.name) for file in folder.iterdir() if file.is_file()}
    plain_last = sorted(endings, key=lambda file: len(endings[file]), reverse=True)
    return {file.name[: len(file.name) - len(endings[file])]: file for file in plain_last}


def _is_part(name: str, start: re.Pattern[str], endings: Iterable[str]) -> bool:
    """Return whether a file of features or labels alone has a name that matches `start` and then one of `endings`."""
    match = PART.fullmatch(name)
    return bool(match and start.fullmatch(match["name"]) and match["ending"] in endings)
