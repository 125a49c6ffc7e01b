"""From data to a model folder: what is kept, what is repeated, and what survives a failure."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import paired_dataset, small_dataset
from xmlgp import preprocess, train
from xmlgp.api.train import Run
from xmlgp.api.trained_model import stored_preprocessing
from xmlgp.data.dataset import Dataset, Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.runtime.progress import silent

SMALL = {"inducing_count": 6, "basis_size": 9, "factors": 3, "epochs": 2, "batch_size": 16}
FREE, SUBSPACE = MLGPFSettings(**SMALL, inducing="free"), MLGPFSettings(**SMALL, inducing="subspace", weighting="unit")
FEATURES = MLGPFSettings(**SMALL, inducing="features", label_weights=True)
GPC = GPCSettings(inducing_count=6, iterations=2)
#: Training fails, after preprocessing that is like that of FREE.
DIVERGENT = MLGPFSettings(**SMALL | {"epochs": 4}, kernel="se", learning_rate=1e30)


def preprocessed(dataset, settings):
    return MODELS[settings.model].preprocess(dataset.features, settings, silent)


def snapshot(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def same(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "settings",
    [
        FREE,
        SUBSPACE,
        MLGPFSettings(**SMALL, weighting="idf"),
        BMLPLSettings(weighting="root-idf"),
        BMLPLSettings(weighting="unit"),
    ],
    ids=["free", "subspace", "idf", "weights", "nothing"],
)
def test_preprocessing_is_stored(tmp_path, settings):
    dataset = small_dataset()
    folder = preprocess(dataset, tmp_path / "model", settings=settings)
    assert (folder.stage, folder.settings) == ("preprocessed", settings)
    assert folder.description["data"] == {"N": 40, "D": 25, "K": 7, "fingerprint": dataset.fingerprint}
    stored, expected = stored_preprocessing(folder), preprocessed(dataset, settings)
    assert stored.weighting[1:] == expected.weighting[1:]
    for found, wanted in zip((*stored[1:], stored.weighting.idf), (*expected[1:], expected.weighting.idf), strict=True):
        same(found, wanted)
    same(stored.weigh(dataset.features).sparse.toarray(), expected.weigh(dataset.features).sparse.toarray())


@pytest.mark.parametrize(
    ("function", "settings", "size", "message"),
    [
        (preprocess, GPC, {"K": 2}, r"gpc is for two classes: the training data must have one label \(K is 2\)$"),
        (train, GPC, {"K": 7}, r"gpc is for two classes: the training data must have one label \(K is 7\)$"),
        (preprocess, FREE, {"D": 0}, "there is nothing to learn"),
        (train, FREE, {"K": 0}, "there is nothing to learn"),
        (train, FREE, {"N": 0}, "there is nothing to learn"),
    ],
)
def test_data_that_a_model_cannot_be_trained_on_are_refused_and_nothing_is_written(
    tmp_path, function, settings, size, message
):
    N, D, K = ({"N": 4, "D": 5, "K": 3} | size).values()
    dataset = Dataset(Features(sp.csr_array(np.ones((N, D), np.float32))), sp.csr_array(np.ones((N, K), bool)))
    with pytest.raises(SettingsError, match=f"^{message}"):
        function(dataset, tmp_path / "model", settings=settings)
    assert not (tmp_path / "model").exists()


def test_the_stored_basis_has_the_memory_order_of_products(tmp_path):
    folder = preprocess(small_dataset(), tmp_path, settings=SUBSPACE)
    assert stored_preprocessing(folder).basis.T.flags.c_contiguous
    rows_first = np.ascontiguousarray(folder.array("preprocess.basis"))
    other = rewritten(folder, {"preprocess.basis": rows_first})
    assert stored_preprocessing(other).basis.T.flags.c_contiguous
    same(stored_preprocessing(other).basis, rows_first)


def rewritten(folder, changed):
    """Write a preprocessed model again with other arrays, without those that are None."""
    arrays = {name: array for name, array in (folder.arrays("") | changed).items() if array is not None}
    data = folder.description["data"]
    return ModelFolder.write(folder.path, settings=folder.settings, stage="preprocessed", data=data, arrays=arrays)


@pytest.mark.parametrize(
    ("settings", "before"),
    [(SUBSPACE, True), (FEATURES, True), (FEATURES, False), (GPC, True)],
    ids=["subspace", "features", "features at once", "gpc"],
)
def test_a_folder_has_the_model_of_training_with_and_without_separate_preprocessing(tmp_path, settings, before):
    dataset = small_dataset(K=1) if settings == GPC else paired_dataset(N=120)
    if before:
        preprocess(dataset, tmp_path, settings=settings)
    found, expected = train(dataset, tmp_path, settings=settings), train(dataset, settings=settings)
    assert (found.folder.stage, found.settings, found.data) == ("trained", settings, dataset.facts)
    assert found.parameters.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        same(found.parameters[name], value)
        assert found.parameters[name].dtype == value.dtype
    same(found.preprocessed.inducing, expected.preprocessed.inducing)
    histories = ([entry | {"seconds": 0} for entry in model.history] for model in (found, expected))
    assert next(histories) == next(histories)


def test_preprocessing_is_used_again_unless_it_depends_on_a_change(tmp_path, monkeypatch):
    kept = preprocess(small_dataset(), tmp_path, settings=FREE).entries("preprocess.")
    monkeypatch.setattr(Run, "preprocess", None)
    for changes in ({}, {"factors": 2, "posterior": "cholesky"}):
        model = train(small_dataset(), tmp_path, settings=replace(FREE, **changes), overwrite=True)
        assert model.folder.entries("preprocess.") == kept
    assert model.parameters["loadings"].shape == (7, 2)


@pytest.mark.parametrize("change", ["settings", "data", "model", "damage"])
def test_preprocessing_is_repeated_after_a_change(tmp_path, change):
    before = BMLPLSettings() if change == "model" else FREE
    preprocess(small_dataset(), tmp_path, settings=before)
    settings, dataset = FREE, small_dataset()
    if change == "settings":
        settings = replace(FREE, seed=1)
    elif change == "data":
        dataset = small_dataset(seed=1)
    elif change == "damage":
        (tmp_path / "model.json").write_text("{")
    model = train(dataset, tmp_path, settings=settings, overwrite=change == "damage")
    assert model.settings == settings
    same(model.preprocessed.inducing, preprocessed(dataset, settings).inducing)
    # Nothing of the earlier model is left.
    named = {entry["file"] for entry in model.folder.entries("").values()}
    assert {str(file) for file in snapshot(tmp_path)} == {"model.json", *named}


@pytest.mark.parametrize("earlier", ["nothing", "preprocessed", "trained"])
def test_the_earlier_content_survives_a_failed_training_but_not_preprocessing(tmp_path, earlier):
    path = tmp_path / "model"
    if earlier != "nothing":
        {"preprocessed": preprocess, "trained": train}[earlier](small_dataset(), path, settings=FREE)
    before = snapshot(tmp_path)
    with pytest.raises(NumericalError):
        train(small_dataset(), path, settings=DIVERGENT, overwrite=True)
    assert snapshot(tmp_path) == before
    assert path.exists() == (earlier != "nothing")
    folder = preprocess(small_dataset(), path, settings=FREE)
    assert (folder.stage, folder.arrays("parameters.")) == ("preprocessed", {})


@pytest.mark.parametrize("function", [preprocess, train])
def test_an_unwritable_folder_is_reported_before_the_work(tmp_path, monkeypatch, function):
    monkeypatch.setattr(Run, "preprocess", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        function(small_dataset(), tmp_path / "file" / "model", settings=FREE)
    assert snapshot(tmp_path).keys() == {Path("file")}


@pytest.mark.parametrize(
    ("settings", "name", "array"),
    [
        (FREE, "idf", None),
        (FREE, "idf", np.ones(24)),
        (FREE, "idf", np.full(25, np.nan)),
        (FREE, "inducing", None),
        (FREE, "inducing", np.ones((6, 24))),
        (FREE, "inducing", np.array(1.0)),
        (FREE, "inducing", np.full((6, 25), -np.inf)),
        (FREE, "basis", np.ones((9, 25))),
        (SUBSPACE, "basis", None),
        (SUBSPACE, "basis", np.ones((9, 24))),
        (SUBSPACE, "basis", np.ones((8, 25))),
        (SUBSPACE, "basis", np.array(1.0)),
        (SUBSPACE, "basis", np.full((9, 25), np.inf)),
        (SUBSPACE, "inducing", np.ones((6, 25))),
        (SUBSPACE, "idf", np.ones(25)),
        (BMLPLSettings(), "inducing", np.ones((6, 25))),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, settings, name, array):
    folder = rewritten(preprocess(small_dataset(), tmp_path, settings=settings), {f"preprocess.{name}": array})
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit its settings$"):
        stored_preprocessing(folder)
    with pytest.raises(ModelFolderError):
        train(small_dataset(), tmp_path, settings=settings)
