"""The folder of a vectorized corpus: data files, the names of features and labels, and the vectorizer."""

import codecs
import contextlib
import json
import os
import re
import tempfile
from pathlib import Path

from xmlgp.data.names import format_names, read_feature_names, read_label_names
from xmlgp.data.repository_format import Header, write_blocks
from xmlgp.errors import XmlgpError
from xmlgp.runtime.atomic_files import check_writable, create_file, report_errors_as
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.progress import silent
from xmlgp.text.names import Names
from xmlgp.text.vectorizer import Vectorizer

__all__ = ["FEATURES", "LABELS", "TRAIN", "VECTORIZER", "check_folder", "read_names", "test_name", "write_folder"]

TRAIN, FEATURES, LABELS, VECTORIZER = "train.txt", "features.txt", "labels.txt", "vectorizer.json"

#: The names that `test_name` returns.
TEST = re.compile(r"test(-\d+)?\.txt")

#: Largest vectorizer.json that is read, in bytes; usual ones have a few hundred.
LARGEST = 1 << 20


def test_name(place):
    """Return the name of a file of test points: test.txt, then test-2.txt and so on, by its place from 0."""
    return f"test-{place + 1}.txt" if place else "test.txt"


def write_folder(folder, files, progress=silent):
    """Write vectorized corpora of the same words and labels; return the files (list of Path).

    If anything fails, the earlier files stay. A data set of text in the folder is replaced, with its test points.

    Parameters
    ----------
    folder : path
        Created if missing.
    files : mapping of str to Vectorized
        By the names of their files.
    progress : callable
        See `xmlgp.runtime.progress`.
    """
    folder = Path(folder)
    vectorizer, labels = (getattr(next(iter(files.values())), name) for name in ("vectorizer", "labels"))
    description = json.dumps(vectorizer.mapping(), indent=1, ensure_ascii=False) + "\n"
    contents = {FEATURES: _names_file(vectorizer.words), LABELS: _names_file(labels), VECTORIZER: description.encode()}
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".xmlgp-", dir=folder) as staged:
            for name, vectorized in files.items():
                header = Header(vectorized.N, len(vectorizer.words), len(labels))
                with report_errors_as(folder / name, Path(staged, name)):
                    write_blocks(Path(staged, name), header, vectorized.blocks(), progress)
            for name, content in contents.items():
                with create_file(Path(staged, name), folder / name) as stream:
                    stream.write(content)
            with uninterruptible:
                for old in _of_an_earlier_data_set(folder):
                    old.unlink()
                # The vectorizer makes the folder one of text: without it, a killed process leaves no mixture of two.
                for name in (*files, *contents):
                    os.replace(Path(staged, name), folder / name)
    except BaseException:
        for made in missing:
            with contextlib.suppress(OSError):
                made.rmdir()
        raise
    return [folder / name for name in (*files, *contents)]


def _of_an_earlier_data_set(folder):
    """Return the vectorizer of an earlier data set of text and its files of test points, which have other words."""
    if not (folder / VECTORIZER).exists():
        return []
    return [folder / VECTORIZER, *(file for file in folder.iterdir() if TEST.fullmatch(file.name))]


def _names_file(names):
    # A first name that begins like a byte order mark would be read without it.
    mark = codecs.BOM_UTF8 if names[0].startswith("\ufeff") else b""
    return mark + format_names(names)


def check_folder(folder):
    """Raise OSError if files cannot be written to a folder, or to where it would be created."""
    folder = Path(folder).absolute()
    while not folder.exists():
        folder = folder.parent
    check_writable(folder)


def read_names(folder, D, K):
    """Return the `Names` of a data set of D features and K labels in a folder, as far as there are files of them.

    Raises
    ------
    DataFormatError
        If features.txt or labels.txt is malformed, or has another number of names.
    XmlgpError
        If vectorizer.json is malformed.
    """
    folder = Path(folder)
    labels, features, vectorizer = None, None, None
    if os.path.isfile(folder / LABELS):
        labels = read_label_names(folder / LABELS, K)
    if os.path.isfile(folder / FEATURES):
        features = read_feature_names(folder / FEATURES, D)
    if os.path.isfile(folder / VECTORIZER):
        if features is None or labels is None:
            raise XmlgpError(f"{folder}: {VECTORIZER} needs {FEATURES} and {LABELS} beside it")
        vectorizer = _read_vectorizer(folder / VECTORIZER, features)
    return Names(labels, features, vectorizer)


def _read_vectorizer(path, words):
    try:
        with open(path, "rb") as stream:
            mapping = json.loads(stream.read(LARGEST))
    except (ValueError, RecursionError):
        mapping = None
    found = Vectorizer.from_mapping(mapping, words) if isinstance(mapping, dict) else None
    if found is None:
        raise XmlgpError(f"{path}: this is not the description of a vectorizer")
    return found
