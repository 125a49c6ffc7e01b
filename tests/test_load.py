"""`load_estimator` and `save`: model folders as estimators, and estimators as model folders."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import xmlgp
from tests.cli.command import run
from tests.held_out import calibrated
from tests.problems import small_dataset
from tests.runs.test_interrupted import SETTINGS, interrupt_after
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, load_estimator
from xmlgp.model_folder import arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.runtime.interrupts import Interrupted
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
        found, expected = (getattr(model, method)(features) for model in (first, second))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def same_models(first, second):
    """Check that two estimators are fitted and are the same."""
    assert type(first) is type(second)
    assert first.parameters_.keys() == second.parameters_.keys()
    for name, value in second.parameters_.items():
        assert first.parameters_[name].dtype == value.dtype
        np.testing.assert_array_equal(first.parameters_[name], value)
    for name in ("history_", "n_features_in_", "tuned_"):
        assert getattr(first, name) == getattr(second, name)
    np.testing.assert_array_equal(first.classes_, second.classes_)


def as_written(probabilities):
    """Return the scores file with all labels."""
    order = np.argsort(-probabilities, axis=1, kind="stable").astype(np.int32)
    scores = Scores.from_top(order, np.take_along_axis(probabilities, order, axis=1), probabilities.shape[1], None)
    with open("expected.scores", "wb") as stream:
        write_scores(stream, scores.N, scores.K, [scores])
    return Path("expected.scores").read_bytes()


@pytest.fixture(scope="module")
def models():
    """Return a function that returns a fitted estimator of a name in `KINDS`; do not change it."""
    made = {}

    def make(name):
        if name not in made:
            kind, settings = KINDS[name]
            dataset, labels = data(kind)
            made[name] = kind(**settings).fit(dataset.features, labels)
        return made[name]

    return make


#: Names of classes that a model folder cannot hold.
UNFIT = [["a", "b\x1b[2J"], [2**64 - 2, 2**64 - 1]]


@pytest.mark.parametrize("name", ["calibrated", "weight space", "classes"])
def test_a_trained_folder_is_the_estimator_that_fit_gives(tmp_path, models, name):
    kind, settings = KINDS[name]
    dataset, labels = data(kind)
    folder = xmlgp.train(dataset, tmp_path, settings=kind.model.settings(**settings).for_shape(*dataset.shape)).folder
    loaded, fitted = load_estimator(tmp_path), models(name)
    assert loaded.get_params() == folder.settings.mapping()
    assert loaded.parameters_.keys() == fitted.parameters_.keys()
    same_predictions(loaded, fitted, small_dataset(seed=3).features)
    again = clone(loaded)
    assert not hasattr(again, "parameters_")
    same_predictions(again.fit(dataset.features, labels), fitted, dataset.features)
    assert loaded.fit(dataset.features, labels) is loaded
    same_predictions(loaded, fitted, dataset.features)


@any_kind
def test_a_model_is_the_same_after_save_and_load(tmp_path, models, name):
    fitted, new = models(name), small_dataset(seed=3).features
    assert fitted.save(tmp_path / "deep" / "model") is None
    loaded = load_estimator(str(tmp_path / "deep" / "model"))
    same_models(loaded, fitted)
    same_predictions(loaded, fitted, new)
    dataset, _ = data(type(fitted))
    settings = fitted.model.settings(**KINDS[name][1]).for_shape(*dataset.shape)
    assert loaded.get_params() == settings.mapping()
    # What is stored is what training stores.
    folder = ModelFolder(tmp_path / "deep" / "model")
    trained = xmlgp.train(dataset, tmp_path / "trained", settings=settings).folder
    assert folder.description["data"] == trained.description["data"] == dataset.facts
    assert folder.description.keys() - {"classes"} == trained.description.keys()
    assert folder.arrays("").keys() == trained.arrays("").keys()
    for array, value in trained.arrays("").items():
        np.testing.assert_array_equal(folder.array(array), value)
    # Arrays that are mapped from a file are written and pickled like others, even over that file.
    loaded.save(tmp_path / "deep" / "model")
    again = load_estimator(tmp_path / "deep" / "model")
    same_models(again, fitted)
    for model in (loaded, copy.deepcopy(again), pickle.loads(pickle.dumps(again))):
        same_predictions(model, fitted, new)


@pytest.mark.parametrize("model", ["mlgpf", "gpc"])
def test_commands_and_python_give_the_same_for_the_same_folder(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    one_label = ["K=1"] if model == "gpc" else []
    write_dataset("train.txt", small_dataset(K=1) if one_label else small_dataset())
    write_dataset("test.txt", small_dataset(seed=3))
    assert run("train", "-q", "train.txt", "trained", "--model", model).exit_code == 0
    loaded, new = load_estimator("trained"), read_dataset("test.txt").features
    loaded.save("saved")
    probabilities = loaded.predict_proba(new)[:, 1:] if one_label else loaded.predict_proba(new)
    for folder in ("trained", "saved"):
        command = ["predict", "-q", folder, "test.txt", "-k", "all", "--output", "probability"]
        assert run(*command, "-o", "scores").exit_code == 0
        assert Path("scores").read_bytes() == as_written(probabilities)
    shown = [run(*command, "trained").stdout for command in (["show"], ["topics"])]
    assert [run(*command, "saved").stdout.replace("saved", "trained") for command in (["show"], ["topics"])] == shown
    assert shown[0]
    # The data and the settings are known, so there is nothing to train.
    assert "already trained" in run("train", "train.txt", "saved", "--model", model, "--resume").stderr


@pytest.mark.parametrize("name", ["calibrated", "topics"])
def test_a_tuned_rule_is_saved_and_applied(tmp_path, monkeypatch, models, name):
    monkeypatch.chdir(tmp_path)
    held = small_dataset(60, seed=5)
    write_dataset("held.txt", held)
    model = copy.copy(models(name)).tune(held.features, held.labels, "f1-macro")
    assert (model.tuned_.metric, model.tuned_.output, model.tuned_.points) == ("f1-macro", "probability", 60)
    model.save("model")
    loaded = load_estimator("model")
    same_models(loaded, model)
    same_predictions(loaded, model, held.features)
    assert run("predict", "-q", "model", "held.txt", "--output", "probability", "-o", "labels").exit_code == 0
    np.testing.assert_array_equal(listed("labels"), model.predict(held.features))


@pytest.mark.parametrize("name", ["calibrated", "by utility", "topics"])
def test_a_rule_of_the_command_is_applied_to_the_scores_that_it_is_for(tmp_path, monkeypatch, models, name):
    metric = "f1-micro"
    monkeypatch.chdir(tmp_path)
    held = small_dataset(60, seed=5)
    write_dataset("held.txt", held)
    models(name).save("model")
    assert run("tune", "-q", "model", "held.txt", "--metric", metric).exit_code == 0
    assert run("predict", "-q", "model", "held.txt", "-o", "labels").exit_code == 0
    loaded = load_estimator("model")
    assert loaded.tuned_ == ModelFolder("model").tuned
    assert loaded.tuned_.output == ("utility" if name in ("by utility", "topics") else "probability")
    assert loaded.assignment_rule_ == loaded.tuned_.rule
    np.testing.assert_array_equal(listed("labels"), loaded.predict(held.features))
    # It is saved as it was.
    loaded.save("again")
    assert ModelFolder("again").tuned == loaded.tuned_
    assert loaded.fit(held.features, held.labels).tuned_ is None
    loaded.save("again")
    assert ModelFolder("again").tuned is None


def listed(file):
    """Return 1 where a scores file lists a label of a point, N×K."""
    rows = [[int(pair.split(":")[0]) for pair in line.split()] for line in Path(file).read_text().splitlines()[1:]]
    found = np.zeros((len(rows), 7), int)
    for row, labels in zip(found, rows, strict=True):
        row[labels] = 1
    return found


@pytest.mark.parametrize("classes", [["", "Käse"], [False, True], [2.0, 7.0]], ids=str)
def test_two_classes_keep_their_names(tmp_path, classes):
    dataset, codes = data(GPCClassifier)
    classes = np.array(classes)
    model = GPCClassifier(inducing_count=8, iterations=3).fit(dataset.features, classes[codes])
    model.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert loaded.classes_.dtype == classes.dtype
    same_models(loaded, model)
    same_predictions(loaded, model, dataset.features)
    assert ModelFolder(tmp_path).classes == classes.tolist()


@pytest.mark.parametrize("classes", UNFIT, ids=lambda classes: ascii(classes)[:20])
def test_classes_that_a_folder_cannot_hold_are_refused(tmp_path, classes):
    dataset, codes = data(GPCClassifier)
    model = GPCClassifier(inducing_count=8, iterations=3).fit(dataset.features, np.array(classes)[codes])
    with pytest.raises(SettingsError, match="^the classes .* and .* cannot be stored: .* none of them a control char"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_holds_no_trained_model_is_refused(tmp_path, models):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for path in ("file", "empty", "nowhere"):
        with pytest.raises(ModelFolderError) as caught:
            load_estimator(tmp_path / path)
        assert str(caught.value) == f"{tmp_path / path}: there is no model here (no model.json)"
    write_dataset(tmp_path / "train.txt", small_dataset())
    run("preprocess", "-q", "--no-cache", tmp_path / "train.txt", tmp_path / "half", "--inducing-count", "5")
    with pytest.raises(ModelFolderError, match=r"half: the model is preprocessed, but not trained yet$"):
        load_estimator(tmp_path / "half")
    models("topics").save(tmp_path / "model")
    (array,) = (tmp_path / "model" / "arrays").glob("parameters.topics.*")
    array.write_bytes(array.read_bytes()[:-1])
    with pytest.raises(ModelFolderError, match=r"the array parameters\.topics is damaged$"):
        load_estimator(tmp_path / "model")


def test_what_cannot_be_saved_is_refused(tmp_path, models):
    with pytest.raises(NotFittedError):
        MLGPFClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelFolderError) as caught:
        models("topics").save(tmp_path / "file")
    assert str(caught.value) == f"{tmp_path / 'file'}: this is a file, but a model is a folder"
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(OSError, match="Not a directory"):
        models("topics").save(tmp_path / "file" / "model")


def test_a_model_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch, models):
    path = tmp_path / "model"
    models("topics").save(path)
    (path / "notes.txt").write_text("mine")
    before = files(path)
    with lock_model_folder(path), pytest.raises(ModelFolderError, match="is writing this model; wait until it ends"):
        models("weight space").save(path)
    assert files(path) == before
    with monkeypatch.context() as patch:
        calls = []

        def fail(*arguments):
            calls.append(1)
            if len(calls) == 3:
                raise OSError(28, "No space left on device")
            return write(*arguments)

        write = arrays.write_array
        patch.setattr(arrays, "write_array", fail)
        with pytest.raises(OSError, match="No space left"):
            models("weight space").save(path)
    assert files(path) == before
    models("weight space").save(path)
    same_models(load_estimator(path), models("weight space"))
    named = {entry["file"] for entry in json.loads((path / "model.json").read_text())["arrays"].values()}
    assert files(path).keys() == named | {"model.json", "notes.txt"}


def test_an_interrupted_run_stays_and_can_be_resumed(tmp_path, monkeypatch, models):
    steps = 2
    dataset, path = small_dataset(), tmp_path / "model"
    with monkeypatch.context() as patch:
        interrupt_after(steps, patch)
        with pytest.raises(Interrupted):
            xmlgp.train(dataset, path, settings=SETTINGS)
    before = files(path)
    models("topics").save(path)
    same_models(load_estimator(path), models("topics"))
    assert before.items() <= files(path).items()
    plans = []
    folder = xmlgp.train(dataset, path, settings=SETTINGS, resume=True, note=plans.append).folder
    assert plans[0].startswith(f"{path}: resuming after {steps} of ")
    expected = xmlgp.train(dataset, tmp_path / "expected", settings=SETTINGS).folder
    for name in expected.arrays(""):
        np.testing.assert_array_equal(folder.array(name), expected.array(name))


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Train models on text in the folder `text` and on named rows in the folder `rows`."""
    monkeypatch.chdir(tmp_path)
    documents = [{"text": f"Größe {word} word{i % 4}", "labels": [word]} for word in ("böse", "gut") for i in range(20)]
    Path("corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    Path("data").mkdir()
    write_dataset("data/train.txt", small_dataset())
    Path("data/labels.txt").write_text("".join(f"label {k}\n" for k in range(7)))
    for source, model in ("corpus.jsonl", "text"), ("data/train.txt", "rows"):
        options = ["--model", "bmlpl", "--topics", "2", "--iterations", "3"]
        assert run("train", "-q", "--no-cache", source, model, *options).exit_code == 0


def test_a_model_keeps_its_names_when_it_is_loaded_and_saved(named):
    text, rows = load_estimator("text"), load_estimator("rows")
    assert text.names_.labels == ["böse", "gut"]
    assert text.names_.features == ["böse", "größe", "gut", "word0", "word1", "word2", "word3"]
    assert text.names_.vectorizer.words == text.names_.features
    assert rows.names_ == Names([f"label {k}" for k in range(7)])
    question = '{"text": "Gut! Größe", "id": "q"}\n'
    answer = run("predict", "-q", "text", "-", stdin=question).stdout
    assert json.loads(answer)["labels"][0]["label"] == "gut"
    features = text.names_.vectorizer.features(["Gut! Größe"])
    # A vectorizer that was used has a function, which no pickle can hold.
    for name, model in ("saved", text), ("again", pickle.loads(pickle.dumps(text))):
        model.save(name)
        assert run("predict", "-q", name, "-", stdin=question).stdout == answer
        loaded = load_estimator(name)
        assert loaded.names_[:2] == text.names_[:2]
        assert (loaded.names_.vectorizer.features(["Gut! Größe"]) != features).nnz == 0
    rows.save("saved")
    assert load_estimator("saved").names_ == rows.names_


def test_fit_drops_names(named):
    model, dataset = load_estimator("rows"), small_dataset()
    assert model.fit(dataset.features, dataset.labels).names_ == Names()
    model.save("rows")
    assert ModelFolder("rows").names == Names()


def test_importing_the_package_imports_no_numpy():
    program = "import sys, xmlgp; dir(xmlgp); sys.exit(bool({'numpy', 'scipy', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
