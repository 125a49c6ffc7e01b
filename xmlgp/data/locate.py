"""Find the training or test file of a data set, which a user names by a file or by the folder of both."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from xmlgp.data.file_kinds import COMPRESSED_ENDINGS, compressed_ending
from xmlgp.errors import XmlgpError

__all__ = ["FILTER", "LABELS_OF", "documents_in", "files_beside", "files_read", "locate", "other_part", "part_of"]
__all__ += ["splits_beside"]

#: How the names of files of labels alone end, by those of the files of their features.
LABELS_OF = {"_X_Xf": "_X_Y", "_ft_mat": "_lbl_mat"}
FEATURES_OF = {labels: features for features, labels in LABELS_OF.items()}
PART = re.compile(rf"(?P<name>.*)(?P<part>{'|'.join([*LABELS_OF, *FEATURES_OF])})\.txt(\.gz)?")
#: What the names of training and test points start with in such files, perhaps after a name and an underscore.
SHORT = {"train": "trn", "test": "tst", "validation": "val"}

#: Files of the numbers of the training points of NAME_data.txt.
SPLIT = re.compile(r"(.*[_-])?(tr|trn|train)_?split\.txt(\.gz)?", re.IGNORECASE)

#: Files of pairs of a point and a label.
FILTER = re.compile(r"(.*_)?filter_labels(_.*)?\.txt(\.gz)?")

#: Files of a data folder, which holds no documents.
OF_DATA = re.compile(
    rf"((train|test(-\d+)?|validation)\.txt|.*\.svm)(\.(gz|bz2|xz|zst))?|vectorizer\.json|{PART.pattern}|{FILTER.pattern}"
)

#: The file that makes a folder that of a model.
MODEL = "model.json"

#: Names beside data, and the files of a model folder.
OTHERS = re.compile(r"(features|labels|Xf|Yf)\.txt|model\.json|data\.yaml|[^/]*\.np[yz]|arrays/.*")


def locate(path: str | os.PathLike[str], part: str) -> str:
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is, but for labels alone the file of the features beside them. In a folder the file
    is PART.txt, PART.svm, trn_X_Xf.txt or tst_X_Xf.txt, or the only `*.PART.svm`; the training points may also be in
    the only other `.svm` file. Each may have an ending of `COMPRESSED_ENDINGS`. A folder of documents is returned as it
    is. XmlgpError is raised if a folder has no such file, or several.
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
    documents = "documents *.txt or *.json"
    if part != "test":
        documents = "documents NAME.txt with labels in NAME.tsv or NAME.key, or NAME.json"
    raise XmlgpError(f"{folder}: this folder contains no {expected}, with or without .gz, and no {documents}")


def part_of(path: str | os.PathLike[str]) -> str | None:
    """Return whether a file has the features or the labels of points alone ("features", "labels"), by its name."""
    match = PART.fullmatch(os.path.basename(path))
    return match and ("features" if match["part"] in LABELS_OF else "labels")


def other_part(path: str | os.PathLike[str], missing: bool = False) -> str | None:
    """Return the file of the labels of features, or of the features of labels, or None; its usual name if `missing`."""
    folder, name = os.path.split(path)
    match = PART.fullmatch(name)
    if match is None:
        return None
    other = os.path.join(folder, f"{match['name']}{(LABELS_OF | FEATURES_OF)[match['part']]}.txt")
    return other if missing else next(filter(os.path.isfile, (other, f"{other}.gz")), None)


def files_beside(path: str, pattern: re.Pattern[str]) -> dict[str, re.Match[str]]:
    """Return the files beside one of points whose names match a pattern, in order, and their matches."""
    folder = os.path.dirname(path)
    names = sorted(os.listdir(folder or os.curdir)) if os.path.isfile(path) else []
    return {os.path.join(folder, name): match for name in names if (match := pattern.fullmatch(name))}


def splits_beside(path: str) -> list[str]:
    """Return the files beside points, of the same name, that say which of them are training points."""
    name = os.path.basename(path).lower()
    splits = files_beside(path, SPLIT)
    return [file for file, match in splits.items() if name.startswith((match[1] or "").lower().rstrip("_-"))]


def documents_in(folder: str | os.PathLike[str], labelled: bool = False) -> list[str]:
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
    documents = of_data <= with_labels and ((with_labels if labelled else texts) | objects) - of_data
    return sorted(texts | objects) if documents else []


def files_read(folder: str | os.PathLike[str]) -> list[Path]:
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


def _files_by_name(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their names without the ending of compressed files; plain files are preferred."""
    order = ("", *COMPRESSED_ENDINGS)
    endings = {file: compressed_ending(file.name) for file in folder.iterdir() if file.is_file()}
    preferred_last = sorted(endings, key=lambda file: order.index(endings[file]), reverse=True)
    return {file.name[: len(file.name) - len(endings[file])]: file for file in preferred_last}


def _is_part(name: str, start: re.Pattern[str], parts: Iterable[str]) -> bool:
    """Return whether the name of a file begins so and ends with one of the parts of data in two files."""
    match = PART.fullmatch(name)
    return bool(match and start.fullmatch(match["name"]) and match["part"] in parts)
