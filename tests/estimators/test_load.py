"""`load_estimator` and `save`: model folders as estimators, and estimators as model folders."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import xmlgp
from tests.api.test_interrupted import SETTINGS, interrupt_after
from tests.cli.command import run
from tests.held_out import calibrated
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, load_estimator
from xmlgp.estimators.from_settings import parameters_of
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import Reporter
from xmlgp.text.names import Names

#: Settings for `Data`, by a name: every kind of predictor.
KINDS = {
    "calibrated": (MLGPFClassifier, {"inducing": "free", "inducing_count": 6, "factors": 3, "epochs": 4}),
    "by utility": (
        MLGPFClassifier,
        {"ranking": "utility", "inducing": "subspace", "basis_size": 9, "inducing_count": 6, "factors": 3}
        | {"epochs": 2, "dtype": "float64", "posterior": "cholesky", "calibration": False},
    ),
    "weight space": (MLGPFClassifier, {"factors": 3, "epochs": 2, "label_weights": True, "calibration": False}),
    "topics": (BMLPLClassifier, {"topics": 3, "iterations": 5}),
    "classes": (GPCClassifier, {"inducing_count": 8, "iterations": 3}),
}


@pytest.fixture(scope="module", autouse=True)
def _calibrated():
    with calibrated():
        yield


any_kind = pytest.mark.parametrize("name", KINDS)


def data(kind, **options):
    """Return a data set, and its labels as `fit` takes them."""
    if kind is not GPCClassifier:
        dataset = small_dataset(**options)
        return dataset, dataset.labels
    dataset = small_dataset(K=1, **options)
    # Features in double precision, as those in libsvm format.
    dataset = Dataset(dataset.features.astype(np.float64), dataset.labels)
    return dataset, dataset.labels.toarray()[:, 0].astype(int)


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def same_predictions(first, second, features):
    for method in ("predict_proba", "decision_function", "predict"):
        result, expected = (getattr(model, method)(features) for model in (first, second))
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def same_models(first, second):
    """Check that two estimators are fitted and are the same."""
    assert type(first) is type(second)
    assert first.parameters_.keys() == second.parameters_.keys()
    for name, value in second.parameters_.items():
        assert first.parameters_[name].dtype == value.dtype
        np.testing.assert_array_equal(first.parameters_[name], value)
    for name in ("history_", "n_features_in_"):
        assert getattr(first, name) == getattr(second, name)
    np.testing.assert_array_equal(first.classes_, second.classes_)


@pytest.fixture(scope="module")
def models():
    """Return a function that returns a fitted estimator of a name in `KINDS`; do not change it."""
    made = {}

    def make(name):
        if name not in made:
            kind, settings = KINDS[name]
            dataset, labels = data(kind)
            made[name] = kind(**settings).fit(dataset.features.sparse, labels)
        return made[name]

    return make


@any_kind
def test_a_model_is_the_same_after_training_into_a_folder_save_and_load(tmp_path, models, name):
    fitted, new = models(name), small_dataset(seed=3).features.sparse
    dataset, labels = data(type(fitted))
    settings = fitted.model.settings(**KINDS[name][1]).for_shape(*dataset.shape)
    trained = xmlgp.train(dataset, tmp_path / "trained", settings=settings).folder
    assert fitted.save(tmp_path / "deep" / "model") is None
    folder = ModelFolder(tmp_path / "deep" / "model")
    # What is stored is what training stores.
    assert folder.description["data"] == trained.description["data"] == dataset.facts
    assert folder.description.keys() - {"classes"} == trained.description.keys()
    assert folder.arrays("").keys() == trained.arrays("").keys()
    for array, value in trained.arrays("").items():
        np.testing.assert_array_equal(folder.array(array), value)
    loaded = load_estimator(str(tmp_path / "deep" / "model"))
    same_models(loaded, fitted)
    assert loaded.get_params() == parameters_of(settings) | {"n_jobs": None, "keep_points": True}
    # Arrays that are mapped from a file are written and pickled like others, even over that file.
    loaded.save(tmp_path / "deep" / "model")
    reloaded = load_estimator(tmp_path / "deep" / "model")
    same_models(reloaded, fitted)
    models_alike = [loaded, copy.deepcopy(reloaded), pickle.loads(pickle.dumps(reloaded)), load_estimator(trained.path)]
    for model in models_alike:
        same_predictions(model, fitted, new)
    fresh = clone(loaded)
    assert not hasattr(fresh, "parameters_")
    same_predictions(fresh.fit(dataset.features.sparse, labels), fitted, new)


@pytest.mark.parametrize("name", ["weight space", "classes"])
def test_commands_read_the_folder(tmp_path, monkeypatch, models, name):
    monkeypatch.chdir(tmp_path)
    fitted, new = models(name), small_dataset(seed=3)
    write_dataset("train.txt", data(type(fitted))[0])
    write_dataset("test.txt", new)
    fitted.save("saved")
    command = ["predict", "-q", "saved", "test.txt", "-k", "all", "--output", "probability"]
    assert run(*command, "-o", "scores").exit_code == 0
    probabilities = fitted.predict_proba(new.features.sparse)
    written = read_scores("scores").matrix.toarray()
    np.testing.assert_allclose(written, probabilities[:, 1:] if name == "classes" else probabilities, rtol=1e-6)
    assert run("show", "saved").exit_code == 0


def listed(file):
    """Return 1 where a scores file lists a label of a point, N×K."""
    scores = read_scores(file)
    marks = np.zeros((scores.N, scores.K), int)
    marks[scores.points, scores.labels] = 1
    return marks


@pytest.mark.parametrize("classes", [["", "Käse"], [False, True], [2.0, 7.0]], ids=str)
def test_two_classes_keep_their_names(tmp_path, models, classes):
    model = named_classes(models, classes)
    model.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    same_models(loaded, model)
    same_predictions(loaded, model, small_dataset().features.sparse)
    assert ModelFolder(tmp_path).description["classes"] == classes


def named_classes(models, classes):
    """Return the estimator of two classes with other names."""
    model = copy.copy(models("classes"))
    model.model_ = dataclasses.replace(model.model_, classes=np.array(classes))
    return model


def test_what_holds_no_trained_model_is_refused(tmp_path):
    with pytest.raises(ModelFolderError, match="nowhere: there is no such folder; "):
        load_estimator(tmp_path / "nowhere")
    xmlgp.preprocess(small_dataset(), tmp_path, settings={"factors": 3})
    with pytest.raises(ModelFolderError, match="the model is preprocessed, but not trained yet$"):
        load_estimator(tmp_path)


def test_an_interrupted_run_stays_and_can_be_resumed(tmp_path, monkeypatch, models):
    dataset, path = small_dataset(), tmp_path / "model"
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(Interrupted):
            xmlgp.train(dataset, path, settings=SETTINGS)
    before = files(path)
    models("topics").save(path)
    same_models(load_estimator(path), models("topics"))
    assert before.items() <= files(path).items()
    plans = []
    resumed = xmlgp.train(dataset, path, settings=SETTINGS, overwrite=True, reporter=Reporter(note=plans.append))
    assert any(plan.startswith(f"{path}: resuming after 2 of ") for plan in plans)
    for name, array in xmlgp.train(dataset, settings=SETTINGS).parameters.items():
        np.testing.assert_array_equal(resumed.parameters[name], array)


def test_a_model_keeps_its_names_when_it_is_loaded_and_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents = [f"Größe {word} word{i % 4}" for word in ("böse", "gut") for i in range(20)]
    settings = {"model": "bmlpl", "topics": 2, "iterations": 3}
    xmlgp.train(documents, "text", labels=[[text.split()[1]] for text in documents], settings=settings)
    model = load_estimator("text")
    assert model.names_.labels == ["böse", "gut"]
    assert model.names_.features == ["böse", "größe", "gut", "word0", "word1", "word2", "word3"]
    question = '{"text": "Gut! Größe", "id": "q"}\n'
    answer = run("predict", "-q", "text", "-", stdin=question).stdout
    assert json.loads(answer)["labels"][0]["label"] == "gut"
    features = model.names_.vectorizer.features(["Gut! Größe"])
    # A vectorizer that was used has a function, which no pickle can hold.
    for name, estimator in ("saved", model), ("again", pickle.loads(pickle.dumps(model))):
        estimator.save(name)
        assert run("predict", "-q", name, "-", stdin=question).stdout == answer
        assert load_estimator(name).names_[:2] == model.names_[:2]
    # `fit` drops names.
    assert model.fit(features.sparse.toarray().repeat(9, axis=0), np.eye(9)).names_ == Names()
    model.save("saved")
    assert ModelFolder("saved").names == Names()
