"""Damaged files: the same twelve of each kind in every run, or random ones if $FUZZ_FILES says how many."""

import os
import warnings

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzzing.corpora import Corpora
from tests.fuzzing.data_files import DataFiles, LibsvmFiles, ScoresFiles
from tests.fuzzing.dense_files import DenseFiles
from tests.fuzzing.model_folders import ModelFolders
from tests.fuzzing.vectorizer_files import VectorizerFiles

#: Every kind of untrusted file that xmlgp reads: a class with a strategy for `samples` and a method `check`, which
#: returns whether a sample was read, and raises if it was handled incorrectly.
KINDS = [DataFiles, LibsvmFiles, DenseFiles, ScoresFiles, Corpora, VectorizerFiles, ModelFolders]

FILES = int(os.environ.get("FUZZ_FILES", 0))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damaged_files_are_read_correctly_or_refused_in_one_sentence(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    # No file has to survive a power failure.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    place, found = kind(tmp_path), []

    @settings(
        max_examples=FILES // len(KINDS) or 12,
        deadline=None,
        database=None,
        derandomize=not FILES,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(place.samples)
    def check(sample):
        found.append(place.check(sample))

    # A warning on standard error is not the one clear sentence.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check()
    assert set(found) == {True, False}
