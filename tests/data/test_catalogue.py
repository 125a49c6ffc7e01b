import re
from pathlib import Path

import pytest
import yaml

from xmlgp.data.catalogue import DataFile, Propensity, load_catalogue
from xmlgp.runtime.errors import CatalogueError

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
            "files": {"train": {"checksums": [GIT, f"sha256:{'a' * 64}"], "member": "a/b"}, "test": {"member": "c"}},
            "source": "https://example.org/a.zip?b=1",
            "note": "Nothing.",
            "recipes": {"s-LINEAR": {"anything": [1, {"at": "all"}]}},
        },
        "pair": {
            "title": "A binary set",
            "format": "libsvm",
            "shape": {"N": 3, "N_test": 0, "D": 5, "K": 1},
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
    assert small.propensity == Propensity(0.55, 1.5)
    assert small.files == (
        DataFile("train", "train.txt", 3, "a/b", [GIT, f"sha256:{'a' * 64}"]),
        DataFile("test", "test.txt", 2, "c"),
    )
    assert pair.files == (DataFile("train", "pair.svm", 3),)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": {"N": 3}}, "the entry of small is malformed (TypeError: "),
        ({"files": {"train": {"size": 3}}}, "unexpected keyword argument 'size'"),
        ({"sources": []}, "unexpected keyword argument 'sources'"),
        ({"propensity": {"C": 1}}, "unexpected keyword argument 'C'"),
    ],
)
def test_a_malformed_entry_is_named(load, change, message):
    datasets = {"small": SMALL["datasets"]["small"] | change}
    with pytest.raises(CatalogueError, match=re.escape(message)):
        load({"datasets": datasets})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "this is not a mapping"),
        ("a: [", "this is not YAML: "),
        (b"\xff", "this is not YAML: "),
        ("a: !!python/object/apply:os.system [ls]", "this is not YAML: "),
    ],
)
def test_a_malformed_file_is_refused(load, content, message):
    with pytest.raises(CatalogueError, match=rf"my\.yaml: {message}"):
        load(content)


def test_the_catalogue_of_the_project():
    catalogue = load_catalogue(PROJECT / "datasets.yaml")
    assert {"toy", "tickets", "bibtex", "delicious", "eurlex-4k"} <= catalogue.names.keys()


def test_catalogue_is_the_same_without_libyaml(monkeypatch):
    catalogue = load_catalogue()
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert load_catalogue() == catalogue
