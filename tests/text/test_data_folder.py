"""The folder of a vectorized corpus, and names of labels to add: what is written is read back, damage is refused."""

import os
import threading

import numpy as np
import pytest

from tests.api.reading import read_training
from tests.api.test_corpus import as_json, corpus
from tests.text.corpora import vectorized
from xmlgp.data.formats import read_dataset
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.text import data_folder
from xmlgp.text.data_folder import write_folder
from xmlgp.text.documents import Columns, CorpusOptions
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names, read_names
from xmlgp.text.word_counts import Analysis


@pytest.fixture
def folder(tmp_path):
    """A folder of a corpus, next to the corpus."""
    found = vectorized(tmp_path / "corpus", as_json(*corpus(40)), Analysis("char", 2, 2))
    write_folder(tmp_path / "data", {"train.txt": found.dataset}, found.names)
    return tmp_path / "data"


@pytest.mark.parametrize("analysis", [Analysis(), Analysis("char", 1, 3)], ids=str)
def test_a_folder_is_read_back_as_the_corpus_was(tmp_path, analysis):
    texts, labels = corpus()
    texts[0] = "repeated " * 70_000 + "twice twice"
    found = vectorized(tmp_path / "a", as_json(texts, labels), analysis, CorpusOptions(separator=";"))
    files = write_folder(
        tmp_path / "deep" / "data", {"train.txt": found.dataset, "test.txt": found.dataset}, found.names
    )
    assert [file.name for file in files] == ["train.txt", "test.txt", FEATURES, LABELS, VECTORIZER]
    assert sorted(files) == sorted((tmp_path / "deep" / "data").iterdir())
    dataset = found.dataset
    for name in ("train.txt", "test.txt"):
        read = read_dataset(tmp_path / "deep" / "data" / name)
        for matrix, expected in (read.features.sparse, dataset.features.sparse), (read.labels, dataset.labels):
            assert matrix.shape == expected.shape
            for part in ("indptr", "indices", "data"):
                np.testing.assert_array_equal(getattr(matrix, part), getattr(expected, part))
    names = read_names(tmp_path / "deep" / "data", dataset.D, dataset.K)
    assert names.labels == found.names.labels
    assert names.features == names.vectorizer.words == found.names.vectorizer.words
    assert (names.vectorizer.analysis, names.vectorizer.columns) == (analysis, Columns(separator=";"))


def test_names_are_optional(tmp_path, folder):
    assert read_names(tmp_path / "nowhere", 3, 4) == Names()
    N, D, K = read_dataset(folder / "train.txt").shape
    (folder / VECTORIZER).unlink()
    assert read_names(folder, D, K).vectorizer is None
    (folder / FEATURES).unlink()
    assert read_names(folder, D, K).features is None
    (folder / LABELS).unlink()
    assert read_names(folder, D, K) == Names()


DAMAGES = [
    (VECTORIZER, lambda content: content[:-4], "this is not the description of a vectorizer"),
    (VECTORIZER, lambda content: b"[" * 100_000, "this is not the description of a vectorizer"),
    (VECTORIZER, lambda content: content.replace(b"char", b"chars"), "this is not the description of a vectorizer"),
    (VECTORIZER, lambda content: b" " * (1 << 20) + content, "this is not the description of a vectorizer"),
    (FEATURES, lambda content: content + b"more\n", "the file has more names than the "),
    (FEATURES, lambda content: content.partition(b"\n")[2], "the file ends after "),
    (FEATURES, lambda content: b"\xff" + content, "byte 0xff at character 1 of the line is not UTF-8"),
    (LABELS, lambda content: b"", "the file ends after 0 of "),
    (LABELS, lambda content: "\x9b".encode() + content, "has U+009B, which no name can have"),
]


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES)
def test_a_damaged_folder_is_refused(folder, name, damage, reason):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(XmlgpError) as caught:
        read_training(folder / "train.txt")
    text = str(caught.value)
    assert text.startswith(f"{folder / name}:")
    assert reason in text
    assert isinstance(caught.value, DataFormatError) == (name != VECTORIZER)


def test_a_vectorizer_needs_names_and_other_files_of_these_names_are_not_used(folder):
    (folder / LABELS).unlink()
    with pytest.raises(XmlgpError, match=f"{VECTORIZER} needs {FEATURES} and {LABELS} beside it"):
        read_training(folder / "train.txt")
    (folder / VECTORIZER).unlink()
    (folder / LABELS).write_text("notes\n")
    messages = []
    assert read_training(folder / "train.txt", note=messages.append).names == Names()
    (message,) = messages
    assert message.startswith(f"names are not used: {folder / LABELS}:2: the file ends after 1 of ")


def test_a_failed_write_leaves_the_earlier_files(folder, monkeypatch):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    found = vectorized(folder.parent / "corpus", as_json(*corpus(20)))

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(data_folder, "write_dataset", fail)
    with pytest.raises(OSError, match="disk full"):
        write_folder(folder, {"train.txt": found.dataset}, found.names)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_the_later_of_two_processes_replaces_all_files_of_the_other(folder, monkeypatch):
    def replace(source, target):
        original(source, target)
        if target == folder / "train.txt" and not others:
            # A thread has a lock of its own, as another process has.
            others.append(
                threading.Thread(target=write_folder, args=(folder, {"train.txt": later.dataset}, later.names))
            )
            others[0].start()
            others[0].join(0.5)

    earlier, later = (vectorized(folder.parent / "corpus", as_json(*corpus(N, seed=N))) for N in (20, 30))
    original, others = os.replace, []
    monkeypatch.setattr(os, "replace", replace)
    write_folder(folder, {"train.txt": earlier.dataset}, earlier.names)
    others[0].join()
    monkeypatch.undo()
    found = read_training(folder / "train.txt")
    assert found.dataset.N == 30
    assert (found.names.features, found.names.labels) == (later.names.features, later.names.labels)
    assert sorted(file.name for file in folder.iterdir()) == sorted(["train.txt", FEATURES, LABELS, VECTORIZER])
