"""The data sets with two classes are made of their published files, point for point."""

import hashlib

import pytest

from benchmarks.papers.binary_sets import PUBLISHED, make_set
from benchmarks.papers.catalogue import load_papers
from xmlgp.runtime.errors import DataFormatError, FetchError

#: Published files of each layout, and the files that they become.
EXAMPLES = {
    "german": (
        {"german.numer": "-1 1:1.000000 2:0.000000 3:4.000000 \n+1 1:2.500000 2:48.000000 3:0.000000 \n"},
        {"german.svm": "-1 1:1 3:4\n+1 1:2.5 2:48\n"},
    ),
    "svmguide1": (
        {
            "svmguide1": "1 1:2.617300e+01 2:-1.894697e-01\n0 1:0.000000e+00 2:1e-07\n",
            "svmguide1.t": "0 1:4.236298e+00\n",
        },
        {"svmguide1.train.svm": "+1 1:26.173 2:-0.1894697\n-1 2:1e-07\n", "svmguide1.test.svm": "-1 1:4.236298\n"},
    ),
    "a8a": (
        {"a8a": "-1 3:1 11:1 \n", "a8a.t": "-1 5:1 6:1 \n+1 5:1 7:1 \n"},
        {"a8a.svm": "-1 5:1 6:1\n+1 5:1 7:1\n-1 3:1 11:1\n"},
    ),
    "skin_nonskin": (
        {"skin_nonskin": "1 1:74 2:85 3:123\n2 1:20 2:21\n"},
        {"skin_nonskin.svm": "+1 1:74 2:85 3:123\n-1 1:20 2:21\n"},
    ),
}

#: Points of magic, a fifth of which become test points.
TABLE = [f"{i}.5,0,-2.25,{'gh'[i % 2]}" for i in range(10)]


def entry_of(name, counts, D, checksums=()):
    entry = load_papers()[name]
    files = tuple(
        file._replace(points=count, checksums=checksums) for file, count in zip(entry.files, counts, strict=True)
    )
    return entry._replace(files=files, shape=entry.shape._replace(N=counts[0], N_test=sum(counts[1:]), D=D))


def published(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def git_digest(text):
    content = text.encode()
    return f"git:{hashlib.sha1(b'blob %d' % len(content) + bytes(1) + content).hexdigest()}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_published_points_become_those_of_the_catalogue(name, tmp_path):
    files, expected = EXAMPLES[name]
    D = max(int(pair.split(":")[0]) for pair in " ".join(expected.values()).split() if ":" in pair)
    entry = entry_of(
        name, [text.count("\n") for text in expected.values()], D, [git_digest(t) for t in expected.values()]
    )
    notes = []
    paths = make_set(entry, published(tmp_path, files), tmp_path / "data", notes.append)
    assert {path.name: path.read_text() for path in paths} == expected
    assert notes == [f"{name}: the files of the catalogue, byte for byte"]
    assert {path.parent for path in paths} == {tmp_path / "data" / name}


def test_the_division_of_magic_does_not_depend_on_the_order(tmp_path):
    entry = entry_of("magic", [8, 2], 3)
    divisions = []
    for number, lines in enumerate((TABLE, TABLE[::-1])):
        source = tmp_path / str(number)
        source.mkdir()
        published(source, {"magic04.data": "\n".join(lines)})
        train, test = make_set(entry, source, source, lambda text: None)
        divisions.append((train.read_text(), test.read_text()))
    assert divisions[0] == divisions[1]
    assert sorted("".join(divisions[0]).splitlines()) == sorted(
        f"{'+1' if i % 2 == 0 else '-1'} 1:{i}.5 3:-2.25" for i in range(10)
    )


def test_other_files_are_refused_and_nothing_is_written(tmp_path):
    entry = entry_of("german", [2], 3)
    data = tmp_path / "data"

    def make(text):
        return make_set(entry, published(tmp_path, {"german.numer": text}), data, lambda text: None)

    with pytest.raises(DataFormatError, match=r"german\.numer:2: label '2' is neither 1 nor -1"):
        make("-1 1:1\n2 1:1\n")
    for line in "<html>", "-1 3:nan":
        with pytest.raises(DataFormatError, match=r"german\.numer:1: this is not a point of the published file"):
            make(f"{line}\n")
    with pytest.raises(
        FetchError, match="german would have 1 points with 3 features, but the catalogue's has 2 with 3"
    ):
        make("-1 3:1\n")
    assert not data.exists()
    make("-1 3:1\n1 3:1\n")
    with pytest.raises(FetchError, match=r"german\.svm exists and has other points; remove it"):
        make("-1 3:1\n1 3:2\n")
    (data / "german" / "german.svm").unlink()
    assert make("-1 3:1\n1 3:2\n")[0].read_text() == "-1 3:1\n+1 3:2\n"


def test_the_catalogue_names_the_published_files():
    entries = {name: entry for name, entry in load_papers().entries.items() if entry.format == "libsvm"}
    assert entries.keys() == PUBLISHED.keys()
    for name, entry in entries.items():
        files = " and ".join(sorted((*PUBLISHED[name].train, *PUBLISHED[name].test)))
        assert f" makes it of {files} of the " in entry.note
