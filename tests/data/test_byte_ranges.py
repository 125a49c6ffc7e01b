"""Files that the workers of a Dask cluster read are read as on one machine, errors included."""

import gzip
import itertools

import pytest

from tests.data.test_repository_format import SMALL, same
from tests.problems import small_dataset
from xmlgp.data import byte_ranges
from xmlgp.data.formats import LIBSVM, REPOSITORY
from xmlgp.data.formats import read_dataset as read_any
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.errors import ClusterError, XmlgpError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

POINTS = b"0,3 1:1.000000 4:0.5 8:-2.5e-3\n 0:1 2:.25\n4\n\n2,1,0 7:3 5:12.125 6:+1\n1 3:0.333333 8:7\n"

#: Files that are read, and files with one mistake.
TEXTS = {
    "ordinary": SMALL,
    "CRLF": SMALL.replace(b"\n", b"\r\n"),
    "blank lines at the end": b"8 9 5\n" + POINTS + b"\n \n",
    "no points": b"0 9 5\n",
    "many points": b"".join([b"180 9 5\n", *itertools.repeat(POINTS, 30)]),
    "no newline at the end": SMALL[:-1],
    "no newline after the header": b"0 9 5",
    "a broken header": b"6 9 x\n" + POINTS,
    "too few points": b"7 9 5\n" + POINTS,
    "no points declared": b"0 9 5\n" + POINTS,
    "a mistake after the last point": b"2 9 5\n" + POINTS + b"x\n",
    "a mistake and no newline": SMALL.replace(b"8:7\n", b"8:x"),
    "a feature twice": SMALL.replace(b"5:12.125", b"7:12.125"),
    "a lone carriage return": SMALL.replace(b"4\n", b"4\r5\n"),
}


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch):
    monkeypatch.setattr(byte_ranges, "RANGE", 50)


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """Return a function that returns what a file is read as, or its error, and the files in the cache."""

    def read(text, work):
        path, cache = tmp_path / "data.txt", tmp_path / f"cache-{work is None}"
        path.write_bytes(text)
        monkeypatch.setenv("XMLGP_CACHE_DIR", str(cache))
        try:
            dataset = read_dataset(path, work=work)
        except XmlgpError as error:
            return type(error), str(error)
        files = [file for file in sorted(cache.rglob("*")) if file.is_file()]
        return dataset, {str(file.relative_to(cache)): file.read_bytes() for file in files}

    return read


def assert_same(found, expected):
    if isinstance(expected[0], type):
        assert found == expected
    else:
        assert same(found[0], expected[0])
        assert len(expected[1]) >= 6
        assert found[1] == expected[1]


@pytest.mark.parametrize("kind", ["many points", "a mistake after the last point"])
def test_workers_read_files_as_they_are_read_here(cluster, outcome, kind):
    assert_same(outcome(TEXTS[kind], cluster), outcome(TEXTS[kind], None))


@pytest.mark.parametrize(("kind", "size"), [*((kind, 7) for kind in TEXTS), ("CRLF", 1)])
def test_the_copy_does_not_depend_on_the_ranges(monkeypatch, in_files, outcome, kind, size):
    monkeypatch.setattr(byte_ranges, "RANGE", size)
    assert_same(outcome(TEXTS[kind], in_files), outcome(TEXTS[kind], None))


def test_many_points_are_read_in_many_tasks(in_files, outcome):
    outcome(TEXTS["many points"], in_files)
    assert in_files.blocks > 30


def test_a_long_line_is_read_here(monkeypatch, in_files, outcome):
    monkeypatch.setattr(byte_ranges, "MAX_LINE_BYTES", byte_ranges.RANGE + 20)
    assert_same(outcome(SMALL, in_files), outcome(SMALL, None))


def test_a_copy_in_the_cache_is_used(in_files, outcome):
    expected = outcome(SMALL, in_files)
    tasks = in_files.blocks
    assert tasks > 0
    assert_same(outcome(SMALL, in_files), expected)
    assert in_files.blocks == tasks


def test_compressed_files_libsvm_files_and_files_without_cache_are_read_here(in_files, tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    dataset = small_dataset()
    write_dataset(tmp_path / "data.txt", dataset)
    text = (tmp_path / "data.txt").read_bytes()
    (tmp_path / "data.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "data.svm").write_bytes(b"+1 1:2\n-1 2:1\n")
    assert is_libsvm(b"+1 1:2\n")
    assert read_any(tmp_path / "data.svm", work=in_files)[1] == LIBSVM
    found = [
        read_any(tmp_path / "data.txt.gz", work=in_files),
        read_any(tmp_path / "data.txt", cache=False, work=in_files),
    ]
    assert in_files.blocks == 0
    found.append(read_any(str(tmp_path / "data.txt"), work=in_files))
    assert in_files.blocks > 0
    for read, data_format in found:
        assert data_format == REPOSITORY
        assert same(read, dataset)


def test_a_file_that_workers_cannot_see_is_one_sentence(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data.txt").write_bytes(SMALL)
    monkeypatch.setattr(byte_ranges.os.path, "abspath", lambda path: path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ of the Dask cluster cannot .*data.txt: No such file"):
        read_dataset("data.txt", work=cluster)
