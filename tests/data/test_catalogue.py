import copy
from pathlib import Path

import pytest
import yaml

from xmlgp.data.catalogue import DataFile, Propensity, load_catalogue
from xmlgp.errors import CatalogueError

PROJECT = Path(__file__).parents[2]

GIT = f"git:{'0' * 40}"

SMALL = {
    "datasets": {
        "small": {
            "title": "A small set",
            "papers": ["S"],
            "aliases": ["tiny"],
            "shape": {"N": 3, "N_test": 2, "D": 5, "K": 4},
            "propensity": {"A": 0.55, "B": 1.5},
            "max_mb": 0.5,
            "files": {"train": {"checksums": [GIT, f"sha256:{'a' * 64}"], "member": "a/b"}, "test": {"member": "c"}},
            "source": "https://example.org/a.zip?b=1",
            "note": "Nothing.",
            "recipes": {"s-LINEAR": {"anything": [1, {"at": "all"}]}},
        },
        "pair": {
            "title": "A binary set",
            "format": "libsvm",
            "shape": {"N": 3, "N_test": 0, "D": 5, "K": 1},
            "max_mb": 1,
            "files": {"train": {"name": "pair.svm"}},
        },
    },
    "recipes": {"s-LINEAR": {"kernel": "linear"}},
}


@pytest.fixture
def load(tmp_path):
    def call(content):
        path = tmp_path / "my.yaml"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return load_catalogue(path)

    return call


def test_load_reads_all_values(load):
    catalogue = load(SMALL)
    small, pair = catalogue.entries["small"], catalogue.entries["pair"]
    assert (small.shape.N, small.shape.N_test, small.shape.D, small.shape.K) == (3, 2, 5, 4)
    assert (small.propensity, small.max_bytes) == (Propensity(0.55, 1.5), 500_000)
    assert small.files == (
        DataFile("train", "train.txt", 3, "a/b", [GIT, f"sha256:{'a' * 64}"]),
        DataFile("test", "test.txt", 2, "c", []),
    )
    assert pair.files == (DataFile("train", "pair.svm", 3, None, []),)
    assert (small.origin, small.mirror_folder) == ("example.org", "small")
    assert (pair.propensity, pair.origin, pair.mirror_folder) == (None, None, "binary")

    assert catalogue.recipes == SMALL["recipes"]
    assert (small.recipes, pair.recipes) == (SMALL["datasets"]["small"]["recipes"], {})
    # Names and aliases are case-insensitive.
    assert small is catalogue["small"] is catalogue["Tiny"] is catalogue["SMALL"]
    assert catalogue.find_by_shape(3, 5, 1) is pair
    assert catalogue.find_by_shape(2, 5, 4) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smal", "did you mean small"),
        ("tinny", "did you mean tiny"),
        ("xyz", "`xmlgp fetch --list` prints all data sets"),
    ],
)
def test_unknown_name_suggests_similar_ones(load, name, hint):
    with pytest.raises(CatalogueError, match=rf"my\.yaml: there is no data set '{name}'; {hint}"):
        load(SMALL)[name]


REMOVED = object()

MISTAKES = [
    ("datasets", REMOVED, "datasets is missing"),
    ("datasets", [], "datasets must be a mapping, not []"),
    ("reciepes", {}, "unknown key 'reciepes'"),
    ("datasets/small/title", REMOVED, "datasets: small: title is missing"),
    ("datasets/small/title", "a\nb", "title must be a string on one line, not 'a\\nb'"),
    ("datasets/small/papers", [True], "papers 1 must be a string on one line, not True"),
    ("datasets/small/aliases", ["pair"], "datasets: small: aliases: pair is already a name of a data set"),
    ("datasets/small/format", "matlab", "format must be repository, libsvm or csv, not 'matlab'"),
    ("datasets/small/shape/N", 0, "datasets: small: shape: N must be an integer from 1 to 1000000000, not 0"),
    ("datasets/small/shape/N", True, "shape: N must be an integer from 1 to 1000000000, not True"),
    ("datasets/small/propensity/B", float("nan"), "propensity: B must be a positive number"),
    ("datasets/small/files/test", REMOVED, "datasets: small: files: test is needed if N_test is not 0, and only then"),
    ("datasets/small/files/test", {"checksums": {}}, "files: test: checksums must be a list, not {}"),
    ("datasets/small/files/test", {"checksums": ["md5:0"]}, "checksums 1 must be git: and 40 or sha256: and 64 of 0-9"),
    ("datasets/small/source", "http://example.org/{file}", "datasets: small: source must be an https:// address"),
    ("datasets/small/source", "https://me:secret@a.org/{file}", "must be an https:// address"),
    ("datasets/small/source", "https://example.org/{file}", "either source contains {file}, or each file has a member"),
]


def changed(content, path, value):
    """Return a copy of `content` with another value at `path`."""
    content = copy.deepcopy(content)
    *parents, last = path.split("/")
    node = content
    for key in parents:
        node = node[key]
    if value is REMOVED:
        del node[last]
    else:
        node[last] = value
    return content


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_mistake_is_reported_with_its_place(load, path, value, message):
    with pytest.raises(CatalogueError) as error:
        load(changed(SMALL, path, value))
    assert "my.yaml: " in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["../evil", "..", ".partial", "a\\b", "~", "-rf", "a\0b", "\u202ea"])
def test_names_cannot_leave_the_data_folder(load, name):
    entry = SMALL["datasets"]["small"]
    with pytest.raises(CatalogueError, match="datasets: .*: the name must be made of lower-case letters") as error:
        load({"datasets": {name: entry}})
    assert str(error.value).isprintable()
    with pytest.raises(CatalogueError, match="files: test: name must be a plain file name, not ") as error:
        load(changed(SMALL, "datasets/small/files/test", {"name": name}))
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "my.yaml must be a mapping, not None"),
        ("datasets: [", r"invalid YAML: .*line 1, column \d+"),
        ("datasets: {}\n3: x", "must be a mapping"),
        ("datasets: !!timestamp x", "invalid YAML"),
        ("datasets: {}\n!!map x: {}", "invalid YAML: .*found unhashable key"),
        ("datasets: 2001-99-99", "invalid YAML: month must be in 1..12"),
        ("datasets: &a {b: *a}", "datasets: b: unknown key 'b'"),
        (f"datasets: 0x{'f' * 5000}", "datasets must be a mapping, not a number of 20000 bits"),
        ("[" * 600, "invalid YAML: maximum recursion depth exceeded"),
        (b"datasets: \x00", "invalid YAML"),
        # Tags run no code.
        (
            "datasets:\n  small: !!python/object/apply:os.mkdir [PWNED]",
            "invalid YAML: could not determine a constructor",
        ),
        ("datasets:\n  small: !!python/name:os.system ''", "invalid YAML: could not determine a constructor"),
        ("datasets:\n  small: !mkdir PWNED", "invalid YAML: could not determine a constructor"),
    ],
)
def test_invalid_yaml_is_reported(load, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogueError, match=message) as error:
        load(text)
    assert str(error.value).isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["my.yaml"]


def test_merge_keys_and_files_that_stand_for_too_much_are_refused(load):
    keys = "".join(f"k{number}: {number}, " for number in range(1000))
    with pytest.raises(CatalogueError, match="invalid YAML: merge keys stand for too much"):
        load(f"a: &a {{{keys}}}\n" + "".join(f"b{number}: {{<<: *a}}\n" for number in range(200)))
    with pytest.raises(CatalogueError, match=r"my\.yaml: invalid YAML: the file is larger than 1048576 bytes"):
        load("# " + "x" * (1 << 20))


def test_missing_catalogue_is_reported(tmp_path):
    with pytest.raises(CatalogueError, match=r"none\.yaml: the file cannot be read \(No such file or directory\)"):
        load_catalogue(tmp_path / "none.yaml")


@pytest.fixture
def default_catalogue(monkeypatch):
    monkeypatch.delenv("XMLGP_CATALOGUE", raising=False)
    return load_catalogue()


def test_data_sets_of_the_default_catalogue_are_found_by_their_shapes(default_catalogue):
    entries = default_catalogue.entries.values()
    assert len(entries) >= 30
    for entry in entries:
        N, _, D, K = entry.shape
        if D:
            assert default_catalogue.find_by_shape(N, D, K) is entry
        else:
            # Titles and whole texts of the same points differ in D alone.
            assert default_catalogue.find_by_shape(N, 12345, K).propensity == entry.propensity


@pytest.mark.parametrize(
    ("propensity", "names"),
    [
        (Propensity(0.5, 0.4), "WikiLSHTC-325K Wikipedia-500K WikiTitles-500K LF-WikiTitles-500K LF-Wikipedia-500K"),
        (Propensity(0.6, 2.6), "Amazon-670K Amazon-3M AmazonTitles-670K AmazonTitles-3M LF-Amazon-131K"),
        (Propensity(0.6, 2.6), "LF-AmazonTitles-131K LF-AmazonTitles-1.3M"),
        (Propensity(0.55, 1.5), "Bibtex Delicious EURLex-4K AmazonCat-13K Wiki10-31K Delicious-200K Mediamill RCV1-2K"),
        (Propensity(0.55, 1.5), "WikiSeeAlsoTitles-350K LF-WikiSeeAlsoTitles-320K LF-WikiSeeAlso-320K"),
    ],
)
def test_propensities_of_the_default_catalogue(default_catalogue, propensity, names):
    assert {default_catalogue[name].propensity for name in names.split()} == {propensity}


def test_catalogue_of_the_environment(load, monkeypatch, tmp_path):
    load(SMALL)
    monkeypatch.delenv("XMLGP_CATALOGUE", raising=False)
    assert load_catalogue().path == PROJECT / "datasets.yaml"
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "my.yaml"))
    assert load_catalogue().path == tmp_path / "my.yaml"
