"""A model folder keeps names and the vectorizer; damaged ones are refused, since folders are untrusted."""

import json
import tracemalloc

import numpy as np
import pytest

from tests.model_folder.test_folder import ARRAYS, DATA, write
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.text.documents import Columns
from xmlgp.text.names import Names
from xmlgp.text.word_counts import Analysis, WordCounts

LABELS = ["機械 学習", ""]
WORDS = ["\ufeff", " a", "b ", "é"]
VECTORIZER = WordCounts(Analysis("char", 1, 2), WORDS, Columns(("title",), id="key"))
NAMES = Names(LABELS, WORDS, VECTORIZER)


def damage(path, name, content, **changes):
    """Replace an array of names and parts of the description by hand."""
    description = json.loads((path / "model.json").read_text()) | changes
    if content is not None:
        array = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        entry = description["arrays"][f"names.{name}"]
        np.save(path / entry["file"], array)
        entry |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    (path / "model.json").write_text(json.dumps(description))
    return ModelFolder(path)


@pytest.mark.parametrize("names", [None, Names(), Names(LABELS), Names(None, WORDS), Names(LABELS, WORDS), NAMES])
def test_names_are_kept(tmp_path, names):
    write(tmp_path, names=names)
    folder = ModelFolder(tmp_path)
    wanted = names or Names()
    assert folder.names[:2] == wanted[:2]
    found = folder.vectorizer
    assert (found is None) == (wanted.vectorizer is None)
    if found:
        assert (found.analysis, found.columns, found.words) == (VECTORIZER.analysis, VECTORIZER.columns, WORDS)
    assert folder.arrays("parameters.").keys() == {name[11:] for name in ARRAYS if name.startswith("parameters.")}


def test_the_next_model_does_not_keep_them(tmp_path):
    write(tmp_path, names=NAMES)
    write(tmp_path)
    assert ModelFolder(tmp_path).names == Names()
    assert not list((tmp_path / "arrays").glob("names.*"))


def test_no_labels_have_no_names(tmp_path):
    write(tmp_path, names=Names([], WORDS))
    folder = damage(tmp_path, "labels", None, data=DATA | {"K": 0})
    assert folder.names.labels == []


CONTENTS = [
    b"", b"a\nb", b"a\nb\nc\n", b"a\n\xff\n", b"a\n\x1b[2J\n", "a\n\x9b2J\n".encode(), b"a\nb\r\n", b"\x7f\n\n",
    np.zeros((2, 2), np.uint8), np.array(10, np.uint8), np.array([97, 10, 98, 10]),
]  # fmt: skip
MAPPING = VECTORIZER.description()
OTHER_MAPPINGS = [{}, MAPPING | {"analyzer": "x"}, MAPPING | {"ngrams": [1, 10**9]}, MAPPING | {"format_version": 2}]
WITHOUT_NAMES, NOT_OF_TEXT = "its {} do not have a name each", "its features are not those of text"

#: The names of a model, which of them have another content, the content, another description, and the reason.
DAMAGED = [
    *[
        (NAMES, kind, content, {}, WITHOUT_NAMES.format(kind))
        for kind in ("features", "labels")
        for content in CONTENTS
    ],
    *[(NAMES, "labels", None, {"vectorizer": mapping}, NOT_OF_TEXT) for mapping in OTHER_MAPPINGS],
    (NAMES, "features", b"a\nb\na\nd\n", {}, NOT_OF_TEXT),
    (Names(LABELS), "labels", None, {"vectorizer": MAPPING}, NOT_OF_TEXT),
]


@pytest.mark.parametrize(("names", "kind", "content", "changes", "reason"), DAMAGED)
def test_damaged_names_are_refused(tmp_path, names, kind, content, changes, reason):
    write(tmp_path, names=names)
    folder = damage(tmp_path, kind, content, **changes)
    with pytest.raises(ModelFolderError) as caught:
        folder.names  # noqa: B018
    assert str(caught.value) == f"{tmp_path}: the model is damaged, {reason}"


@pytest.mark.parametrize("mapping", [None, [], "x", 3, MAPPING | {"analyzer": "a\nb"}], ids=str)
def test_other_values_than_mappings_damage_the_description(tmp_path, mapping):
    write(tmp_path, names=NAMES)
    with pytest.raises(ModelFolderError, match="the description of the model is damaged"):
        damage(tmp_path, "labels", None, vectorizer=mapping)


@pytest.mark.parametrize("name", ["labels", "features"])
def test_names_that_are_a_hole_in_a_file_take_no_memory(tmp_path, name):
    write(tmp_path, names=NAMES)
    description = json.loads((tmp_path / "model.json").read_text())
    entry = description["arrays"][f"names.{name}"]
    array = np.lib.format.open_memmap(tmp_path / entry["file"], "w+", np.uint8, (1 << 30,))
    del array
    entry |= {"dtype": "|u1", "shape": [1 << 30]}
    (tmp_path / "model.json").write_text(json.dumps(description))
    folder = ModelFolder(tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFolderError, match="do not have a name each"):
            folder._names(name, "K" if name == "labels" else "D")
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
