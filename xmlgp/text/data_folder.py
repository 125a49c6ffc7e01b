"""The folder of vectorized corpora: data files, the names of features and labels, and the vectorizer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xmlgp.data.locate import locate
from xmlgp.data.names import format_names
from xmlgp.data.repository_format import write_dataset
from xmlgp.data.streams import check_outputs
from xmlgp.runtime.atomic_files import (
    check_writable,
    create_file,
    make_folders,
    remove_empty,
    report_errors_as,
    temporary_folder,
)
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.locks import hold_lock
from xmlgp.runtime.progress import Progress, ignore, silent
from xmlgp.text.analysis import Analysis
from xmlgp.text.corpus import open_corpus, read_documents
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.labels import LabelNumbers, note_alike
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER
from xmlgp.text.vectorize import Vectorized, check_vocabulary, vectorize
from xmlgp.text.word_counts import WordCounts

__all__ = ["TRAIN", "vectorize_files", "write_folder"]

#: The file of training points.
TRAIN = "train.txt"

#: The lock of the folder while its files are replaced.
LOCK = ".lock"

#: Names of files of test points.
TEST = re.compile(r"test(-\d+)?\.txt")


def vectorize_files(
    path: str,
    tests: Sequence[str],
    folder: str | Path,
    analysis: Analysis,
    options: CorpusOptions = NO_OPTIONS,
    progress: Progress = silent,
    note: Callable[[str], object] = ignore,
) -> list[Path]:
    """Vectorize a corpus, and test corpora with its words and labels, into a folder; return the files."""
    paths = [locate(path, "train"), *(locate(test, "test") for test in tests)]
    names = [TRAIN, *(f"test-{number}.txt" if number > 1 else "test.txt" for number in range(1, len(paths)))]
    _check_writable(folder)
    written = [Path(folder, name) for name in (*names, FEATURES, LABELS, VECTORIZER)]
    check_outputs([*written, *_of_an_earlier_data_set(Path(folder))], paths)
    vectorizer = WordCounts(analysis, [], options.columns())
    labels: list[str] = []
    files: dict[str, Vectorized] = {}
    for name, path in zip(names, paths, strict=True):
        with open_corpus(path, options, note) as reader:
            documents = read_documents(reader, options, vectorizer.columns, note=note)
            corpus = vectorize(documents, reader.path, vectorizer, LabelNumbers(labels), not files, progress=progress)
        if not files:
            check_vocabulary(corpus, reader.path)
            note_alike(corpus.labels, 0, reader.path, note)
        vectorizer = corpus.vectorizer
        labels = corpus.labels
        files[name] = corpus
    written = write_folder(folder, files, progress)
    for corpus, path in zip(files.values(), paths, strict=True):
        note(f"{path}: {corpus.summary()}")
    return written


def write_folder(folder: str | Path, files: Mapping[str, Vectorized], progress: Progress = silent) -> list[Path]:
    """Write corpora of the same words and labels, by the names of their files; return all files.

    If anything fails, the earlier files stay. A data set of text in the folder is replaced, with its test points.
    """
    folder = Path(folder)
    first = next(iter(files.values()))
    vectorizer = first.vectorizer
    description = json.dumps(vectorizer.description(), indent=1, ensure_ascii=False) + "\n"
    contents = {
        FEATURES: format_names(vectorizer.words),
        LABELS: format_names(first.labels),
        VECTORIZER: description.encode(),
    }
    missing = make_folders(folder)
    try:
        with temporary_folder(folder) as staged:
            for name, vectorized in files.items():
                with report_errors_as(folder / name, staged / name):
                    write_dataset(staged / name, vectorized.dataset, progress)
            for name, content in contents.items():
                with create_file(staged / name, folder / name) as stream:
                    stream.write(content)
            # Of two processes, the later one replaces all files of the other.
            with hold_lock(folder / LOCK, wait=True), uninterruptible:
                for old in _of_an_earlier_data_set(folder):
                    old.unlink()
                # The vectorizer makes the folder one of text: without it, a killed process leaves no mixture of two.
                for name in (*files, *contents):
                    os.replace(staged / name, folder / name)
    except BaseException:
        remove_empty(missing)
        raise
    return [folder / name for name in (*files, *contents)]


def _of_an_earlier_data_set(folder: Path) -> list[Path]:
    """Return the vectorizer of an earlier data set of text and its files of test points, which have other words."""
    if not (folder / VECTORIZER).exists():
        return []
    return [folder / VECTORIZER, *(file for file in folder.iterdir() if TEST.fullmatch(file.name))]


def _check_writable(folder: str | Path) -> None:
    """Raise OSError if files cannot be written to a folder, or to where it would be created."""
    folder = Path(folder).absolute()
    while not folder.exists():
        folder = folder.parent
    check_writable(folder)
