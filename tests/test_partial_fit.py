"""`partial_fit`: the estimators learn more points, labels and features, as `xmlgp learn` does."""

import contextlib
import copy
import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from tests.cli.command import run
from tests.held_out import calibrated
from tests.problems import small_dataset
from tests.test_load import same_models, same_predictions
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, load_estimator
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.tuning import Tuned
from xmlgp.text.analysis import Analysis
from xmlgp.text.names import Names
from xmlgp.text.vectorizer import Vectorizer

#: Settings for each way of learning on, by a name. Models that cannot learn on are left out.
KINDS = {
    "calibrated": (MLGPFClassifier, {"inducing": "free", "inducing_count": 6, "factors": 3, "epochs": 4}),
    "weight space": (MLGPFClassifier, {"factors": 3, "epochs": 2, "label_weights": True}),
    "topics": (BMLPLClassifier, {"topics": 3, "iterations": 5}),
}
KINDS = {name: (kind, settings) for name, (kind, settings) in KINDS.items() if kind.model.learn}

any_kind = pytest.mark.parametrize("name", KINDS)

OLD, SAME = small_dataset(), small_dataset(N=15, seed=5)
MORE = small_dataset(N=20, D=29, K=9, seed=6)


@pytest.fixture(scope="module")
def models():
    """Return a function that returns an estimator of a name in `KINDS`, fitted to `OLD`, which may be changed."""
    made = {}

    def make(name):
        if name not in made:
            kind, settings = KINDS[name]
            with calibrated() if name == "calibrated" else contextlib.nullcontext():
                made[name] = kind(**settings).fit(OLD.features, OLD.labels)
        return copy.copy(made[name])

    return make


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 6)
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)


def without_seconds(value):
    """Return an entry of a description without times and names of files, which differ between runs."""
    if isinstance(value, dict):
        return {key: without_seconds(part) for key, part in value.items() if key not in ("seconds", "file")}
    return [without_seconds(part) for part in value] if isinstance(value, list) else value


def same_folders(first, second):
    """Check that two folders have the same model, bit for bit."""
    first, second = ModelFolder(first), ModelFolder(second)
    assert without_seconds(first.description) == without_seconds(second.description)
    for name in second.description["arrays"]:
        np.testing.assert_array_equal(first.array(name), second.array(name))


@any_kind
def test_it_gives_the_model_of_the_command(tmp_path, monkeypatch, models, name):
    monkeypatch.chdir(tmp_path)
    model = models(name)
    model.save("command")
    for number, batch in enumerate([SAME, MORE]):
        write_dataset("batch.txt", batch)
        assert run("learn", "-q", "command", "batch.txt").exit_code == 0
        assert model.partial_fit(batch.features, batch.labels) is model
        assert len(model.learned_) == number + 1
        model.save("python")
        same_folders("python", "command")
        same_predictions(model, load_estimator("command"), batch.features)
    description = ModelFolder("python").description
    assert description["data"]["N"] == 40 + 15 + 20
    assert description["data"]["first"] == OLD.fingerprint
    assert [batch["fingerprint"] for batch in description["learned"]] == [SAME.fingerprint, MORE.fingerprint]
    for command in ("show", "learn"):
        assert run(command, "python", *["batch.txt"] * (command == "learn")).exit_code == 0
    assert run("predict", "-q", "python", "batch.txt", "-o", "labels.txt").exit_code == 0


@any_kind
def test_more_labels_and_features(models, name):
    model = models(name)
    history = model.history_
    before = {key: value.copy() for key, value in model.parameters_.items()}
    first = model.parameters_
    model.partial_fit(MORE.features.toarray(), MORE.labels.toarray().astype(int))
    assert model.n_features_in_ == 29
    assert [classes.tolist() for classes in model.classes_] == [[0, 1]] * 9
    assert model.predict_proba(MORE.features).shape == (20, 9)
    (batch,) = model.learned_
    assert {key: batch[key] for key in "NDK"} == {"N": 20, "D": 4, "K": 2}
    assert batch["fingerprint"] == MORE.fingerprint
    assert batch["history"]
    assert model.history_ == history
    # The arrays of before are not changed in place.
    for key, value in before.items():
        np.testing.assert_array_equal(first[key], value)
    with pytest.raises(SettingsError, match="the points have 25 features, but the model was trained on 29"):
        model.predict(OLD.features)


@any_kind
def test_what_was_learned_is_saved_and_loaded(tmp_path, models, name):
    model = models(name).partial_fit(SAME.features, SAME.labels).tune(OLD.features, OLD.labels)
    tuned = model.tuned_
    assert isinstance(tuned, Tuned)
    model.save(tmp_path)
    loaded = load_estimator(tmp_path)
    assert loaded.learned_ == model.learned_
    same_models(loaded, model)
    # A later save does not lose it, and a loaded model goes on as the other one does.
    loaded.save(tmp_path)
    assert ModelFolder(tmp_path).description["learned"] == model.learned_
    for one in (loaded, model):
        one.partial_fit(MORE.features, MORE.labels)
        assert one.tuned_ == tuned
        assert one.model_.data["first"] == OLD.fingerprint
    assert without_seconds(loaded.learned_) == without_seconds(model.learned_)
    same_models(loaded, model)
    again = pickle.loads(pickle.dumps(model))
    assert again.learned_ == model.learned_
    # Fitting starts anew.
    assert again.fit(OLD.features, OLD.labels).learned_ == []
    again.save(tmp_path)
    assert "learned" not in ModelFolder(tmp_path).description


def test_without_fit_it_is_fit(models):
    name = "weight space"
    kind, settings = KINDS[name]
    model = kind(**settings)
    assert model.partial_fit(OLD.features, OLD.labels) is model
    assert model.learned_ == []
    for key, value in models(name).parameters_.items():
        np.testing.assert_array_equal(model.parameters_[key], value)


def test_the_settings_are_those_of_fit(tmp_path, models):
    name = "weight space"
    model = models(name)
    expected = models(name).partial_fit(SAME.features, SAME.labels)
    model.set_params(seed=7, dtype="float64").partial_fit(SAME.features, SAME.labels)
    for key, value in expected.parameters_.items():
        assert model.parameters_[key].dtype == value.dtype
        np.testing.assert_array_equal(model.parameters_[key], value)
    model.save(tmp_path)
    assert ModelFolder(tmp_path).settings.seed == 0


def test_names_stay_as_long_as_they_name_all(models):
    name = "weight space"
    labels, words = [f"label {k}" for k in range(7)], [f"word{d}" for d in range(25)]
    names = Names(labels, words, Vectorizer(Analysis(), words))
    more_labels = Dataset(SAME.features, sp.csr_array(sp.hstack([SAME.labels, SAME.labels[:, :1]])))
    more_features = Dataset(sp.csr_array(sp.hstack([SAME.features, SAME.features[:, :1]])), SAME.labels)
    for batch, expected in [
        (SAME, names),
        (more_labels, names._replace(labels=None)),
        (more_features, Names(labels)),
        (MORE, Names()),
    ]:
        model = models(name)
        model.model_ = dataclasses.replace(model.model_, names=names)
        assert model.partial_fit(batch.features, batch.labels).names_ == expected


def test_what_it_cannot_learn_is_refused_and_changes_nothing(models):
    name = "weight space"
    model = models(name)
    before = dict(model.__dict__)
    for X, Y, message in [
        (SAME.features[:, :24], SAME.labels, "the points have 24 features, but the model was trained on 25; "),
        (SAME.features, SAME.labels[:, :6], "the points have 6 labels, but the model was trained on 7; "),
        (SAME.features, SAME.labels[:4], "there are 15 points, but labels of 4$"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(np.full((2, 25), np.nan), SAME.labels[:2])
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(SAME.features[:0], SAME.labels[:0])
    with pytest.raises(TypeError, match="classes"):
        model.partial_fit(SAME.features, SAME.labels, classes=[0, 1])
    assert model.__dict__ == before


@pytest.mark.parametrize("kind", [MLGPFClassifier, BMLPLClassifier, GPCClassifier])
def test_only_models_that_learn_on_have_it(kind):
    assert hasattr(kind(), "partial_fit") == (kind.model.learn is not None)
    assert hasattr(MLGPFClassifier(), "partial_fit")
    assert not hasattr(GPCClassifier(), "partial_fit")
    assert hasattr(clone(MLGPFClassifier(factors=3)), "partial_fit")
