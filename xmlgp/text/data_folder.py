"""The folder of a vectorized corpus: data files, the names of features and labels, and the vectorizer."""

import codecs
import json
import os
from pathlib import Path

from xmlgp.data.names import format_names, read_feature_names, read_label_names
from xmlgp.data.repository_format import Header, write_blocks
from xmlgp.errors import XmlgpError
from xmlgp.runtime.atomic_files import atomic_write, check_writable
from xmlgp.runtime.progress import silent
from xmlgp.text.names import Names
from xmlgp.text.vectorizer import Vectorizer

__all__ = ["FEATURES", "LABELS", "TRAIN", "VECTORIZER", "check_folder", "read_names", "test_name", "write_folder"]

TRAIN, FEATURES, LABELS, VECTORIZER = "train.txt", "features.txt", "labels.txt", "vectorizer.json"

#: Largest vectorizer.json that is read, in bytes; usual ones have a few hundred.
LARGEST = 1 << 20


def test_name(place):
    """Return the name of a file of test points: test.txt, then test-2.txt and so on, by its place from 0."""
    return f"test-{place + 1}.txt" if place else "test.txt"


def write_folder(folder, files, progress=silent):
    """Write vectorized corpora of the same words and labels.

    Each file is complete or is not written. The vectorizer, which makes a folder one of text, is written last.

    Parameters
    ----------
    folder : path
        Created if missing.
    files : mapping of str to Vectorized
        By the names of their files.
    progress : callable
        See `xmlgp.runtime.progress`.

    Returns
    -------
    list of Path
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    vectorizer, labels = (getattr(next(iter(files.values())), name) for name in ("vectorizer", "labels"))
    (folder / VECTORIZER).unlink(missing_ok=True)
    for name, vectorized in files.items():
        header = Header(vectorized.N, len(vectorizer.words), len(labels))
        write_blocks(folder / name, header, vectorized.blocks(), progress)
    description = json.dumps(vectorizer.mapping(), indent=1, ensure_ascii=False) + "\n"
    for name, content in (
        (FEATURES, _names_file(vectorizer.words)),
        (LABELS, _names_file(labels)),
        (VECTORIZER, description.encode()),
    ):
        with atomic_write(folder / name) as stream:
            stream.write(content)
    return [folder / name for name in (*files, FEATURES, LABELS, VECTORIZER)]


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
    """Return the `Names` of a data set in a folder, as far as there are files of them.

    Parameters
    ----------
    folder : path
    D, K : int
        The numbers of features and labels.

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
