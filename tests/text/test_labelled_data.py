"""Training data of any kind: rows, with names beside them, or a corpus."""

import os
import threading

import pytest

from tests.fuzzing.data_files import standard_input
from tests.problems import small_dataset
from tests.text.test_vectorize import as_json, corpus
from xmlgp.data.formats import LIBSVM, REPOSITORY
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Columns, CorpusOptions
from xmlgp.text.names import Names
from xmlgp.text.points import read_training_data


def same(one, other):
    return one.shape == other.shape and (one.features != other.features).nnz == (one.labels != other.labels).nnz == 0


def test_rows_and_corpora(tmp_path):
    write_dataset(tmp_path / "rows.txt", small_dataset())
    (tmp_path / "two.svm").write_text("+1 1:1\n-1 2:1\n")
    (tmp_path / "corpus").write_bytes(as_json(*corpus()))
    for name, data_format, has_names in (
        ("rows.txt", REPOSITORY, False),
        ("two.svm", LIBSVM, False),
        ("corpus", REPOSITORY, True),
    ):
        found = read_training_data(tmp_path / name)
        assert (found.format, found.names != Names()) == (data_format, has_names)
        with standard_input((tmp_path / name).read_bytes()):
            piped = read_training_data("-")
        assert same(piped.dataset, found.dataset)
        assert (piped.format, piped.names.labels) == (data_format, found.names.labels)
    assert found.names.features == found.names.vectorizer.words
    assert found.names.vectorizer.columns == Columns()


def test_a_named_pipe_is_read_once(tmp_path):
    # More than a pipe and a block hold.
    write_dataset(tmp_path / "rows", small_dataset(N=30_000))
    content = (tmp_path / "rows").read_bytes()
    assert len(content) > 2 << 20
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
    writer.start()
    found = read_training_data(tmp_path / "pipe")
    writer.join()
    assert same(found.dataset, read_training_data(tmp_path / "rows").dataset)


def test_given_columns_or_formats_make_a_corpus_of_any_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 2 3\n")
    assert read_training_data_fails(path).startswith(f"{path}:2: the file ends after 0 of 1 points")
    assert read_training_data_fails(path, CorpusOptions(format="annif")).startswith(f"{path}:1: there is no tab")
    assert read_training_data_fails(path, CorpusOptions(text=("title",))).startswith(
        f"{path}:1: there is no column 'title'"
    )
    path.write_text("")
    assert read_training_data_fails(path) == f"{path}:1: the file is empty"


def read_training_data_fails(*arguments, **options):
    with pytest.raises(DataFormatError) as caught:
        read_training_data(*arguments, **options)
    return str(caught.value)
