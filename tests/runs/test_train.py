"""From data to a model folder: what is kept, what is repeated, and what survives a failure."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.problems import paired_dataset, small_dataset, small_features
from xmlgp import api
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.dataset import Dataset
from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.gpc.record import train as train_gpc
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train as train_mlgpf
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.runs import train as train_module
from xmlgp.runs.trained_model import stored_preprocessing
from xmlgp.runtime.progress import silent

SMALL = {"inducing_count": 6, "basis_size": 9, "factors": 3, "epochs": 2, "batch_size": 16}
FREE, SUBSPACE = MLGPFSettings(**SMALL, inducing="free"), MLGPFSettings(**SMALL, inducing="subspace", weighting="unit")
FEATURES = MLGPFSettings(**SMALL, inducing="features", label_weights=True)
#: Of factors alone.
PLAIN = MLGPFSettings(**SMALL, inducing="features", label_weights=False, regression_points=0)
#: Training fails, after preprocessing that is like that of FREE.
DIVERGENT = MLGPFSettings(**SMALL | {"epochs": 4}, kernel="se", learning_rate=1e30)


def preprocess(features, settings, progress=silent):
    return MODELS[settings.model].preprocess(features, settings, progress)


def snapshot(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def untimed(history):
    return history and [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]


def same(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "settings", [FREE, SUBSPACE, MLGPFSettings(**SMALL, weighting="idf")], ids=["free", "subspace", "idf"]
)
def test_preprocessing_is_stored(tmp_path, settings):
    dataset = small_dataset()
    folder = api.preprocess(dataset, tmp_path / "model", settings=settings)
    assert folder.stage == "preprocessed"
    assert folder.settings == settings
    assert folder.description["data"] == {"N": 40, "D": 25, "K": 7, "fingerprint": dataset.fingerprint}
    stored, expected = stored_preprocessing(folder), preprocess(dataset.features, settings)
    assert stored.weighting[1:] == expected.weighting[1:]
    for found, wanted in zip((*stored[1:], stored.weighting.idf), (*expected[1:], expected.weighting.idf), strict=True):
        same(found, wanted)
    same(stored.weigh(dataset.features).toarray(), expected.weigh(dataset.features).toarray())


@pytest.mark.parametrize("weighting", ["root-idf", "unit"])
def test_preprocessing_of_a_model_without_inducing_inputs_is_stored(tmp_path, weighting):
    dataset, settings = small_dataset(), BMLPLSettings(weighting=weighting)
    folder = api.preprocess(dataset, tmp_path, settings=settings)
    assert (folder.stage, folder.settings) == ("preprocessed", settings)
    assert set(folder.entries("")) == ({"preprocess.idf"} if weighting == "root-idf" else set())
    stored, expected = stored_preprocessing(folder), preprocess(dataset.features, settings)
    assert (stored.basis, stored.inducing) == (None, None)
    same(stored.weigh(dataset.features).toarray(), expected.weigh(dataset.features).toarray())


@pytest.mark.parametrize(("dense", "standardise"), [(True, True), (False, True), (True, False)])
def test_standardisation_is_stored(tmp_path, dense, standardise):
    dataset = Dataset(small_features(density=0.25 if dense else 0.05), small_dataset(K=1).labels)
    settings = GPCSettings(inducing_count=6, standardise=standardise)
    folder = api.preprocess(dataset, tmp_path, settings=settings)
    names = {"inducing", "scale", "center"} if standardise else {"inducing"}
    assert set(folder.entries("")) == {f"preprocess.{name}" for name in names}
    stored, expected = stored_preprocessing(folder), preprocess(dataset.features, settings)
    same(stored.center, expected.center)
    same(stored.weighting.scale, expected.weighting.scale)
    every = np.arange(dataset.N)
    found, wanted = (part.inputs(dataset.features, np.float64).rows(every)[0] for part in (stored, expected))
    same(*(values if dense else values.toarray() for values in (found, wanted)))


@pytest.mark.parametrize("K", [2, 7])
def test_gpc_refuses_data_with_several_labels(tmp_path, K):
    for build_model in (api.preprocess, xmlgp.train):
        message = rf"^gpc is for two classes: the training data must have one label \(K is {K}\)$"
        with pytest.raises(SettingsError, match=message):
            build_model(small_dataset(K=K), tmp_path, settings=GPCSettings())
    assert not snapshot(tmp_path)


IN_WEIGHT_SPACE = MLGPFSettings(inducing="features", factors=3, epochs=1)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (FREE, r"the latent functions \(fewer factors lower that\)"),
        (IN_WEIGHT_SPACE, r"the covariances of exact GP regression \(regression_points=0 avoids that\)$"),
        (replace(IN_WEIGHT_SPACE, regression_points=0), r"the latent functions \(fewer factors lower that\)"),
    ],
    ids=["inducing inputs", "regression", "weight space"],
)
def test_training_that_does_not_fit_into_memory_is_refused_before_preprocessing(tmp_path, monkeypatch, settings, part):
    dataset = small_dataset()
    needed = sum(part.size for part in MODELS["mlgpf"].memory(settings, dataset))
    monkeypatch.setattr("xmlgp.model.available_memory", lambda: needed - 1)
    message = rf"^training needs at least 0\.0 GB of memory, but 0\.0 GB are available: .*0\.0 GB for {part}"
    with pytest.raises(SettingsError, match=message):
        xmlgp.train(dataset, tmp_path, settings=settings)
    assert not snapshot(tmp_path)
    for available in (needed, None):
        monkeypatch.setattr("xmlgp.model.available_memory", lambda available=available: available)
        xmlgp.train(dataset, tmp_path, settings=settings)


def test_an_interrupted_run_that_does_not_fit_into_memory_is_kept(tmp_path, monkeypatch):
    def fail(*arguments):
        raise KeyboardInterrupt

    dataset = small_dataset()
    with monkeypatch.context() as context:
        context.setattr(train_module, "preprocess_data", fail)
        with pytest.raises(KeyboardInterrupt):
            xmlgp.train(dataset, tmp_path, settings=FREE)
    before = snapshot(tmp_path)
    assert before
    monkeypatch.setattr("xmlgp.model.available_memory", lambda: 0)
    for resume in (None, True, False):
        with pytest.raises(SettingsError, match="^training needs at least"):
            xmlgp.train(dataset, tmp_path, settings=FREE, resume=resume)
        assert snapshot(tmp_path) == before


def test_preprocessing_of_another_model_is_not_used(tmp_path):
    dataset = small_dataset()
    api.preprocess(dataset, tmp_path, settings=BMLPLSettings())
    assert xmlgp.train(dataset, tmp_path, settings=FREE).folder.settings == FREE
    assert stored_preprocessing(ModelFolder(tmp_path)).inducing.shape == (6, 25)


def test_the_stored_basis_has_the_memory_order_of_products(tmp_path):
    folder = api.preprocess(small_dataset(), tmp_path, settings=SUBSPACE)
    assert stored_preprocessing(folder).basis.T.flags.c_contiguous
    rows_first = np.ascontiguousarray(folder.array("preprocess.basis"))
    arrays = folder.arrays("") | {"preprocess.basis": rows_first}
    other = ModelFolder.write(
        tmp_path, settings=SUBSPACE, stage="preprocessed", data=folder.description["data"], arrays=arrays
    )
    assert stored_preprocessing(other).basis.T.flags.c_contiguous
    same(stored_preprocessing(other).basis, rows_first)


def test_commands_do_not_import_scikit_learn():
    # Importing it takes longer than predicting a small file.
    modules = "xmlgp.runs.train, xmlgp.mlgpf.predictor, xmlgp.bmlpl.predictor, xmlgp.gpc.model"
    program = f"import sys, {modules}; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("settings", "before"),
    [(SUBSPACE, True), (PLAIN, False), (FEATURES, True), (FEATURES, False)],
    ids=["subspace", "plain", "features", "features at once"],
)
def test_training_gives_the_same_model_with_and_without_separate_preprocessing(tmp_path, settings, before):
    dataset = paired_dataset(N=120)
    if before:
        api.preprocess(dataset, tmp_path, settings=settings)
    folder = xmlgp.train(dataset, tmp_path, settings=settings).folder
    assert folder.stage == "trained"
    assert folder.settings == settings
    assert folder.description["data"] == {"N": 120, "D": 25, "K": 7, "fingerprint": dataset.fingerprint}
    preprocessed = preprocess(dataset.features, settings)
    expected = train_mlgpf(dataset.features, dataset.labels, preprocessed, settings)
    parameters = folder.arrays("parameters.")
    assert parameters.keys() == expected.parameters.keys()
    assert ("regression.weights" in parameters) == (settings == FEATURES)
    assert ("label_weights.mean" in parameters) == (settings == FEATURES)
    for name, value in expected.parameters.items():
        same(parameters[name], value)
        assert parameters[name].dtype == value.dtype
    same(stored_preprocessing(folder).inducing, preprocessed.inducing)
    assert untimed(folder.description["history"]) == untimed(expected.history)
    assert "validation" not in folder.description


@pytest.mark.parametrize("before", [True])
def test_gpc_gives_the_same_model_with_and_without_separate_preprocessing(tmp_path, before):
    dataset, settings = small_dataset(K=1), GPCSettings(inducing_count=6, iterations=2)
    if before:
        api.preprocess(dataset, tmp_path, settings=settings)
    folder = xmlgp.train(dataset, tmp_path, settings=settings).folder
    assert (folder.stage, folder.settings) == ("trained", settings)
    preprocessed = preprocess(dataset.features, settings)
    parameters, history = train_gpc(dataset.features, dataset.labels, preprocessed, settings)
    assert folder.arrays("parameters.").keys() == parameters.keys()
    for name, value in folder.arrays("parameters.").items():
        same(value, parameters[name])
        assert value.dtype == np.float64
    assert untimed(folder.description["history"]) == untimed(history)
    assert "validation" not in folder.description


def test_preprocessing_is_used_again_unless_it_depends_on_a_change(tmp_path, monkeypatch):
    dataset = small_dataset()
    kept = api.preprocess(dataset, tmp_path, settings=FREE).entries("preprocess.")
    monkeypatch.setattr(train_module, "preprocess_data", None)
    for changes in ({}, {"factors": 2, "posterior": "cholesky"}):
        folder = xmlgp.train(small_dataset(), tmp_path, settings=replace(FREE, **changes)).folder
        assert folder.entries("preprocess.") == kept
    assert folder.array("parameters.loadings").shape == (7, 2)


@pytest.mark.parametrize("change", ["settings", "data", "damage"])
def test_preprocessing_is_repeated_after_a_change(tmp_path, change):
    before = api.preprocess(small_dataset(), tmp_path, settings=FREE).array("preprocess.inducing")
    settings, dataset = FREE, small_dataset()
    if change == "settings":
        settings = replace(FREE, seed=1)
    elif change == "data":
        dataset = small_dataset(seed=1)
    else:
        (tmp_path / "model.json").write_text("{")
    folder = xmlgp.train(dataset, tmp_path, settings=settings).folder
    assert (change == "damage") == np.array_equal(folder.array("preprocess.inducing"), before)
    same(folder.array("preprocess.inducing"), preprocess(dataset.features, settings).inducing)
    # Nothing of the earlier model is left.
    named = {entry["file"] for entry in folder.entries("").values()}
    assert {str(file) for file in snapshot(tmp_path)} == {"model.json", *named}


def test_preprocessing_replaces_a_trained_model(tmp_path):
    xmlgp.train(small_dataset(), tmp_path, settings=FREE)
    folder = api.preprocess(small_dataset(), tmp_path, settings=FREE)
    assert folder.stage == "preprocessed"
    assert not folder.arrays("parameters.")


@pytest.mark.parametrize("earlier", ["nothing", "preprocessed", "trained"])
def test_the_earlier_content_survives_a_failed_training(tmp_path, earlier):
    path = tmp_path / "model"
    if earlier == "preprocessed":
        api.preprocess(small_dataset(), path, settings=FREE)
    elif earlier != "nothing":
        xmlgp.train(small_dataset(), path, settings=SUBSPACE if earlier.startswith("other") else FREE)
    before = snapshot(tmp_path)
    with pytest.raises(NumericalError):
        xmlgp.train(small_dataset(), path, settings=DIVERGENT)
    assert snapshot(tmp_path) == before
    assert path.exists() == (earlier != "nothing")


@pytest.mark.parametrize("function", [api.preprocess, xmlgp.train])
def test_an_unwritable_folder_is_reported_before_the_work(tmp_path, monkeypatch, function):
    monkeypatch.setattr(train_module, "preprocess_data", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        function(small_dataset(), tmp_path / "file" / "model", settings=FREE)
    assert snapshot(tmp_path).keys() == {Path("file")}


@pytest.mark.parametrize(
    ("function", "size"), [(api.preprocess, {"D": 0}), (xmlgp.train, {"K": 0}), (xmlgp.train, {"N": 0})]
)
def test_empty_data_are_refused_and_nothing_is_written(tmp_path, function, size):
    N, D, K = ({"N": 4, "D": 5, "K": 3} | size).values()
    nonzero = sp.csr_array(np.ones((N, D), np.float32)), sp.csr_array(np.ones((N, K), bool))
    with pytest.raises(SettingsError, match="^there is nothing to learn"):
        function(Dataset(*nonzero), tmp_path / "model", settings=FREE)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("settings", "name", "array"),
    [
        (FREE, "idf", None),
        (FREE, "idf", np.ones(24)),
        (FREE, "inducing", None),
        (FREE, "inducing", np.ones((6, 24))),
        (FREE, "inducing", np.array(1.0)),
        (FREE, "basis", np.ones((9, 25))),
        (SUBSPACE, "basis", None),
        (SUBSPACE, "basis", np.ones((9, 24))),
        (SUBSPACE, "basis", np.ones((8, 25))),
        (SUBSPACE, "basis", np.array(1.0)),
        (SUBSPACE, "inducing", np.ones((6, 25))),
        (SUBSPACE, "idf", np.ones(25)),
        (FREE, "idf", np.full(25, np.nan)),
        (FREE, "inducing", np.full((6, 25), -np.inf)),
        (SUBSPACE, "basis", np.full((9, 25), np.inf)),
        (BMLPLSettings(), "idf", None),
        (BMLPLSettings(), "idf", np.ones(24)),
        (BMLPLSettings(), "inducing", np.ones((6, 25))),
        (BMLPLSettings(), "basis", np.ones((9, 25))),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, settings, name, array):
    folder = api.preprocess(small_dataset(), tmp_path, settings=settings)
    arrays = folder.arrays("") | {f"preprocess.{name}": array}
    arrays = {key: value for key, value in arrays.items() if value is not None}
    folder = ModelFolder.write(
        tmp_path, settings=settings, stage="preprocessed", data=folder.description["data"], arrays=arrays
    )
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit its settings$"):
        stored_preprocessing(folder)
    with pytest.raises(ModelFolderError):
        xmlgp.train(small_dataset(), tmp_path, settings=settings)
