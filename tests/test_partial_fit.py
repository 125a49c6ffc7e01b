"""`partial_fit`: the estimators learn more points, labels and features, as `xmlgp learn` does."""

import contextlib
import copy
import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.held_out import calibrated
from tests.problems import small_dataset
from tests.test_load import same_models, same_predictions
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, load_estimator
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.text.analysis import Analysis
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts

#: Settings for each way of learning on, by a name.
KINDS = {
    "calibrated": (MLGPFClassifier, {"inducing": "free", "inducing_count": 6, "factors": 3, "epochs": 4}),
    "weight space": (MLGPFClassifier, {"factors": 3, "epochs": 2, "label_weights": True}),
    "topics": (BMLPLClassifier, {"topics": 3, "iterations": 5}),
}

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
                made[name] = kind(**settings).fit(OLD.features.sparse, OLD.labels)
        return copy.copy(made[name])

    return make


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 6)
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)


def without_seconds(value):
    """Return an entry of a description without times and names of files, which differ between runs."""
    if isinstance(value, dict):
        return {key: without_seconds(item) for key, item in value.items() if key not in ("seconds", "file")}
    return [without_seconds(item) for item in value] if isinstance(value, list) else value


@any_kind
def test_it_gives_the_model_of_the_function(tmp_path, models, name):
    model = models(name)
    model.save(tmp_path / "function")
    for batch in (SAME, MORE):
        xmlgp.learn(tmp_path / "function", batch)
        assert model.partial_fit(batch.features.sparse.toarray(), batch.labels.toarray().astype(int)) is model
    model.save(tmp_path / "python")
    loaded, folder = load_estimator(tmp_path / "function"), ModelFolder(tmp_path / "python")
    same_models(loaded, model)
    same_predictions(loaded, model, MORE.features.sparse)
    assert without_seconds(folder.description) == without_seconds(ModelFolder(tmp_path / "function").description)
    assert (folder.description["data"]["N"], folder.description["data"]["first"]) == (40 + 15 + 20, OLD.fingerprint)
    assert [[batch[key] for key in "NDK"] for batch in model.learned_] == [[15, 0, 0], [20, 4, 2]]
    assert [batch["fingerprint"] for batch in model.learned_] == [SAME.fingerprint, MORE.fingerprint]
    assert model.n_features_in_ == 29
    assert [classes.tolist() for classes in model.classes_] == [[0, 1]] * 9
    assert model.predict_proba(MORE.features.sparse).shape == (20, 9)
    with pytest.raises(SettingsError, match="^X has 25 features, but .* is expecting 29 features as input$"):
        model.predict(OLD.features.sparse)
    # Fitting starts anew.
    assert model.fit(OLD.features.sparse, OLD.labels).learned_ == []


@any_kind
def test_what_was_learned_is_saved_and_loaded_and_arrays_stay(tmp_path, models, name):
    model = models(name)
    first, before = model.parameters_, {key: value.copy() for key, value in model.parameters_.items()}
    model.partial_fit(SAME.features.sparse, SAME.labels).tune(OLD.features.sparse, OLD.labels, force=True)
    for key, value in before.items():
        np.testing.assert_array_equal(first[key], value)
    tuned = model.tuned_
    model.save(tmp_path)
    # A loaded model goes on as the other one does, and leaves its folder.
    loaded, learned = load_estimator(tmp_path), model.learned_
    for estimator in (loaded, model):
        estimator.partial_fit(MORE.features.sparse, MORE.labels)
        assert (estimator.tuned_, estimator.learned_[:1]) == (tuned, learned)
    assert ModelFolder(tmp_path).description["learned"] == learned
    for key, value in model.parameters_.items():
        np.testing.assert_array_equal(loaded.parameters_[key], value)
    assert pickle.loads(pickle.dumps(model)).learned_ == model.learned_


def test_without_fit_it_is_fit(models):
    name = "weight space"
    kind, settings = KINDS[name]
    model = kind(**settings)
    assert model.partial_fit(OLD.features.sparse, OLD.labels) is model
    assert model.learned_ == []
    for key, value in models(name).parameters_.items():
        np.testing.assert_array_equal(model.parameters_[key], value)


def test_the_settings_are_those_of_fit(tmp_path, models):
    name = "weight space"
    model = models(name)
    expected = models(name).partial_fit(SAME.features.sparse, SAME.labels)
    model.set_params(random_state=7, dtype="float64").partial_fit(SAME.features.sparse, SAME.labels)
    for key, value in expected.parameters_.items():
        assert model.parameters_[key].dtype == value.dtype
        np.testing.assert_array_equal(model.parameters_[key], value)
    model.save(tmp_path)
    assert ModelFolder(tmp_path).settings.seed == 0


def test_names_stay_as_long_as_they_name_all(models):
    name = "weight space"
    labels, words = [f"label {k}" for k in range(7)], [f"word{d}" for d in range(25)]
    names = Names(labels, words, WordCounts(Analysis(), words))
    more_labels = Dataset(SAME.features, sp.csr_array(sp.hstack([SAME.labels, SAME.labels[:, :1]])))
    more_features = Dataset(
        Features(sp.csr_array(sp.hstack([SAME.features.sparse, SAME.features.sparse[:, :1]]))), SAME.labels
    )
    for batch, expected in [
        (SAME, names),
        (more_labels, names._replace(labels=None)),
        (more_features, Names(labels)),
        (MORE, Names()),
    ]:
        model = models(name)
        model.model_ = dataclasses.replace(model.model_, names=names)
        assert model.partial_fit(batch.features.sparse, batch.labels).names_ == expected


def test_what_it_cannot_learn_is_refused_and_changes_nothing(models):
    name = "weight space"
    model = models(name)
    before = dict(model.__dict__)
    for X, Y, message in [
        (
            SAME.features.sparse[:, :24],
            SAME.labels,
            "X has 24 features, but MLGPFClassifier is expecting 25 features as input$",
        ),
        (SAME.features.sparse, SAME.labels[:, :6], "the points have 6 labels, but the model was trained on 7; "),
        (SAME.features.sparse, SAME.labels[:4], "there are 15 points, but the labels of 4 points$"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(np.full((2, 25), np.nan), SAME.labels[:2])
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(SAME.features.sparse[:0], SAME.labels[:0])
    assert model.__dict__ == before


def test_only_models_that_learn_on_have_it():
    assert hasattr(MLGPFClassifier(), "partial_fit")
    assert not hasattr(GPCClassifier(), "partial_fit")
