"""Damaged copies in the cache: the data set is still that of the text, and the copy is repaired."""

import os
import shutil
from unittest import mock

from hypothesis import strategies as st

from tests.fuzzing.data_files import points_of
from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.npy_files import damaged_npy
from tests.fuzzing.strict_data_reader import read_data
from xmlgp.data import repository_format
from xmlgp.data.repository_format import read_dataset

__all__ = ["CacheEntries"]

#: The first two have the same shape and number of elements.
TEXTS = {
    "one": b"4 9 5\n0,3 1:1.5 4:0.5 8:-2.5\n 0:1\n4\n2,1 5:12.125 7:3\n",
    "another": b"4 9 5\n0,1 1:2.5 3:0.5 8:-2.5\n 2:1\n4\n2,3 4:11.125 7:3\n",
    "empty": b"2 5 5\n\n \n",
}


class CacheEntries:
    """Copies of data files in the cache.

    Parameters
    ----------
    folder : Path
        The working folder.
    """

    name = "cached copy"

    def __init__(self, folder):
        self.folder = folder
        self._cache = folder / "cache"
        self._contents, self._entries = {}, {}
        for name, text in TEXTS.items():
            (folder / f"{name}.txt").write_bytes(text)
            with self._environment():
                read_dataset(folder / f"{name}.txt")
            (entry,) = (self._cache / "text").iterdir()
            self._entries[name] = entry
            self._contents[name] = {file.name: file.read_bytes() for file in entry.iterdir()}
            shutil.move(entry, folder / name)
        self.samples = st.one_of(*[self._samples(name) for name in TEXTS])

    def _environment(self):
        return mock.patch.dict(os.environ, {"XMLGP_CACHE_DIR": str(self._cache)})

    def _samples(self, name):
        contents = self._contents[name]
        arrays = st.sampled_from([file for file in sorted(contents) if file.endswith(".npy")])
        any_file = st.sampled_from(sorted(contents))
        changes = st.one_of(
            any_file.flatmap(lambda file: mangled([contents[file]]).map(lambda content: {file: content})),
            arrays.flatmap(lambda file: damaged_npy(contents[file]).map(lambda content: {file: content})),
            any_file.map(lambda file: {file: None}),
            st.tuples(any_file, any_file).map(lambda files: {files[0]: contents[files[1]]}),
            # Some or all files of another data set.
            st.tuples(st.sampled_from(sorted(TEXTS)), st.sets(any_file) | st.just(set(contents))).map(
                lambda chosen: {file: self._contents[chosen[0]][file] for file in sorted(chosen[1])}
            ),
        )
        return changes.map(lambda files: Sample(name, files))

    def check(self, sample):
        """Read the text beside the damaged copy; return whether the copy was used."""
        entry, path = self._entries[sample.original], self.folder / f"{sample.original}.txt"
        shutil.copytree(self.folder / sample.original, entry)
        try:
            for name, content in sample.files.items():
                if content is None:
                    (entry / name).unlink()
                else:
                    (entry / name).write_bytes(content)
            with self._environment():
                used = self._check(entry, path, sample)
                # The copy has been replaced by a correct one.
                with mock.patch.object(repository_format, "parse_block", side_effect=AssertionError("read the text")):
                    self._compare(read_dataset(path), path)
        finally:
            shutil.rmtree(self._cache / "text")
        return used

    def _check(self, entry, path, sample):
        before = {file.name: file.read_bytes() for file in entry.iterdir()}
        self._compare(read_dataset(path), path)
        after = {file.name: file.read_bytes() for file in entry.iterdir()}
        if before != after:
            assert after == self._contents[sample.original], "a discarded copy is not rebuilt identically"
        return before == after

    def _compare(self, dataset, path):
        assert (dataset.N, dataset.D, dataset.K, points_of(dataset)) == read_data(path.read_bytes())
