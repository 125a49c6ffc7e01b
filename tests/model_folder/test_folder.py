"""The model folder: round trips, and atomic replacement."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset, Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import ModelFolderError

DATA = {"N": 3, "D": 4, "K": 2, "fingerprint": "f" * 64}
HISTORY = [{"epoch": 1, "bound": -3.5, "seconds": 0.25}]
SETTINGS = MLGPFSettings(factors=2, learning_rate=0.125, negatives=7, ard=False, nodes=20)
ARRAYS = {
    "parameters.matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "parameters.scalar": np.array(2.5),
    "parameters.in_fortrans_order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "parameters.deep": np.ones((2, 1, 3), np.float32),
    "parameters.places": np.array([0, 2**40, -1]),
    "parameters.few_places": np.array([[3], [2**31 - 1]], np.int32),
    "preprocess.other": np.array([-0.0, np.nan, np.inf], np.float32),
}


def write(path, arrays=ARRAYS, stage="trained", **facts):
    if stage == "trained":
        facts = {"history": HISTORY} | facts
    return ModelFolder.write(path, settings=SETTINGS, stage=stage, data=DATA, arrays=arrays, **facts)


def files(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def assert_same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_round_trip(tmp_path):
    write(tmp_path / "deep" / "model")
    folder = ModelFolder(tmp_path / "deep" / "model")
    assert folder.stage == "trained"
    assert folder.settings == SETTINGS
    assert folder.description["data"] == DATA
    assert folder.description["history"] == HISTORY
    for name, array in ARRAYS.items():
        assert_same(folder.array(name), array)
    assert isinstance(folder.array("parameters.matrix"), np.memmap)
    assert not folder.array("parameters.matrix").flags.writeable
    parameters = folder.arrays("parameters.")
    assert list(parameters) == ["matrix", "scalar", "in_fortrans_order", "deep", "places", "few_places"]
    assert_same(parameters["matrix"], ARRAYS["parameters.matrix"])
    assert folder.array("nothing") is None
    assert list(folder.entries("preprocess.")) == ["preprocess.other"]


@pytest.mark.parametrize("name", ["parameters.matrix", "parameters.in_fortrans_order", "parameters.places"])
def test_arrays_are_read_in_native_byte_order(tmp_path, name):
    expected = ARRAYS[name]
    other = expected.astype(expected.dtype.newbyteorder())
    found = write(tmp_path, {name: other}).array(name)
    assert_same(found, expected)
    assert found.flags.f_contiguous == expected.flags.f_contiguous
    assert not found.flags.writeable


def rewritten(path, **changes):
    description = json.loads((path / "model.json").read_text()) | changes
    (path / "model.json").write_text(json.dumps(description))
    return path


def test_settings_of_another_model_are_rejected(tmp_path):
    write(tmp_path)
    with pytest.raises(ModelFolderError, match=r"model.json: ard is a setting of mlgpf, not of bmlpl$"):
        ModelFolder(rewritten(tmp_path, model="bmlpl", history=[{"epoch": 1, "log_posterior": -1.0, "seconds": 0.5}]))
    # The model has an entry of its own and is not a setting.
    for model in MODELS:
        settings = {"model": model, "seed": 3}
        with pytest.raises(ModelFolderError, match=r"model.json: model is not a setting; "):
            ModelFolder(rewritten(tmp_path, model="mlgpf", settings=settings, history=HISTORY))


def test_replacing_a_model_keeps_only_the_given_arrays(tmp_path):
    first = write(tmp_path, {"preprocess.a": np.ones(3), "preprocess.b": np.ones(2)}, stage="preprocessed")
    kept, held = first.entries("preprocess.a"), first.array("preprocess.b")
    second = write(tmp_path, {"parameters.c": np.zeros(4)}, keep=kept)
    assert_same(second.array("preprocess.a"), np.ones(3))
    assert_same(second.array("parameters.c"), np.zeros(4))
    assert second.array("preprocess.b") is None
    assert set(files(tmp_path)) == {"model.json", *(entry["file"] for entry in second.entries("").values())}
    assert_same(held, np.ones(2))  # open arrays of the earlier model stay readable


def test_other_files_are_kept(tmp_path):
    (tmp_path / "arrays" / "sub").mkdir(parents=True)
    others = ["notes.txt", "arrays/thesis.npy", "arrays/parameters.npy", "arrays/sub/parameters.a.01234567.npy"]
    for name in others:
        (tmp_path / name).write_text("precious")
    (tmp_path / "arrays" / "parameters.left.behind.01234567.npy").write_text("by an interrupted run")
    for _ in range(2):
        folder = write(tmp_path, {"parameters.a": np.ones(2)})
    assert set(files(tmp_path)) == {*others, "model.json", folder.entries("")["parameters.a"]["file"]}


def test_fingerprints_are_those_of_the_content():
    dataset = small_dataset()
    features, labels = dataset.features.sparse.toarray(), dataset.labels.toarray()

    def changed(values, index):
        copy = values.copy()
        copy[index] = not copy[index] if copy.dtype == bool else copy[index] + 1
        return copy

    wide = dataset.features.sparse.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert Dataset(Features(wide), dataset.labels).fingerprint == dataset.fingerprint
    others = [
        (features[:, ::-1], labels),
        (changed(features, (0, 0)), labels),
        (features, changed(labels, (39, 6))),
        (np.pad(features, [(0, 1), (0, 0)]), np.pad(labels, [(0, 1), (0, 0)])),
        (np.zeros_like(features), labels),
    ]
    prints = {Dataset(Features(sp.csr_array(x)), sp.csr_array(y)).fingerprint for x, y in others}
    assert len(prints | {dataset.fingerprint}) == len(others) + 1
    with_another_label = np.pad(labels, [(0, 0), (0, 1)])
    assert Dataset(Features(sp.csr_array(features)), sp.csr_array(with_another_label)).fingerprint in {
        dataset.fingerprint
    }


def test_read_restarts_if_the_model_is_replaced(tmp_path):
    write(tmp_path)
    opened = []

    def use(folder):
        opened.append(folder)
        first = folder.array("parameters.scalar")
        if len(opened) < 3:
            write(tmp_path, ARRAYS | {"parameters.scalar": np.array(float(len(opened)))})
        # All arrays are of one model, although the first stays readable after its file is deleted.
        return first, folder.array("parameters.matrix"), folder.array("parameters.scalar")

    first, matrix, again = ModelFolder.read(tmp_path, use)
    assert len(opened) == 3
    assert_same(matrix, ARRAYS["parameters.matrix"])
    assert first == again == 2


def test_read_of_a_damaged_model_raises_without_a_retry(tmp_path):
    folder, used = write(tmp_path), []
    (tmp_path / folder.entries("")["parameters.matrix"]["file"]).unlink()

    def use(folder):
        used.append(folder)
        return folder.array("parameters.matrix")

    with pytest.raises(ModelFolderError, match="the array parameters.matrix is missing$"):
        ModelFolder.read(tmp_path, use)
    assert len(used) == 1
    with pytest.raises(ModelFolderError, match="missing: there is no such folder; "):
        ModelFolder.read(tmp_path / "missing", use)
