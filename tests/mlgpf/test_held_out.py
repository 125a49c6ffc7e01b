"""Points held out of training: how they are chosen, that training does not see them, and the calibration on them."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from tests.mlgpf.test_resuming import assert_same_result
from tests.mlgpf.test_train import prepared
from tests.problems import small_dataset
from tests.training.interrupting import train_with_interruptions
from xmlgp.data.dataset import Dataset
from xmlgp.errors import NumericalError
from xmlgp.mlgpf import held_out as module
from xmlgp.mlgpf import train as training
from xmlgp.mlgpf.held_out import CalibrationAfterEpoch, calibration_points, can_judge, without_labels_of
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import run_inference, train
from xmlgp.mlgpf.weight_space_ascent import SWEEPS
from xmlgp.prediction.calibration import RANKS, Calibration, fit_calibration
from xmlgp.runtime.progress import silent
from xmlgp.training.stopping import hold_out

DATASET = small_dataset(N=120, K=12)
IN_WEIGHT_SPACE = {"inducing": "features", "epochs": 3, "label_sample": 6, "learning_rate": None, "calibration": True}


@pytest.fixture
def _many_held_out(monkeypatch):
    """A quarter of the points is held out in weight space, however few they are."""
    monkeypatch.setattr(module, "CALIBRATION_SHARE", 0.25)
    monkeypatch.setattr(module, "CALIBRATION_LEAST", 1)


def changed_labels(rows):
    """Return the data set with the labels of some points swapped for those that they do not have."""
    labels = DATASET.labels.toarray()
    labels[rows] = ~labels[rows]
    return Dataset(DATASET.features, sp.csr_array(labels))


def test_the_number_of_points_in_weight_space():
    settings = MLGPFSettings(inducing="features")
    for N, expected in [(1999, 0), (2000, 100), (20_000, 1000), (50_000, 2000)]:
        labels = sp.csr_array((np.ones(N, bool), (np.arange(N), np.zeros(N, int))), shape=(N, 3))
        trained, held = calibration_points(settings, labels)
        assert len(held) == expected
        np.testing.assert_array_equal(np.union1d(trained, held), np.arange(N))
        assert len(trained) == N - expected
        assert not len(calibration_points(dataclasses.replace(settings, calibration=False), labels)[1])
        assert not len(calibration_points(settings, sp.csr_array(labels.shape, dtype=bool))[1])


@pytest.mark.parametrize("labelled", [0, 9, 10])
def test_few_points_with_labels_judge_nothing(labelled):
    labels = sp.csr_array(np.arange(40)[:, None] < labelled)
    assert can_judge(labels, np.arange(30)) == (labelled == 10)


def test_labels_of_points_are_left_out():
    found = without_labels_of(DATASET.labels, np.array([0, 7, 119]))
    expected = DATASET.labels.toarray()
    expected[[0, 7, 119]] = False
    np.testing.assert_array_equal(found.toarray(), expected)


@pytest.mark.usefixtures("_many_held_out")
@pytest.mark.parametrize("chosen", [{"label_weights": True}, {"label_weights": False}], ids=str)
def test_training_in_weight_space_sees_held_out_points_in_the_last_sweep_only(monkeypatch, chosen):
    # The features that labels have weights on come from all points; here, they are all features.
    K, D = DATASET.K, DATASET.D
    pattern = np.arange(K + 1) * D, np.tile(np.arange(D, dtype=np.int32), K)
    monkeypatch.setattr("xmlgp.gp.label_weights.label_features", lambda *arguments: pattern)
    arguments = prepared(DATASET, **IN_WEIGHT_SPACE | chosen)
    settings = arguments[3]
    _, held = calibration_points(settings, DATASET.labels)
    assert len(held) == 30
    found = []
    for dataset in (DATASET, changed_labels(held)):
        seen = []

        def after_epoch(epoch, parameters, seen=seen):
            seen.append({name: value.copy() for name, value in parameters().items()})

        # `run_inference` has no calibration, so the loop is made here.
        make_loop = training._attempts(*coordinates_and_labels(dataset, arguments), None, settings, None)._make_loop
        make_loop(None).run(after_epoch=after_epoch)
        found.append(seen)
    first, other = found
    assert len(first) == 3 + (SWEEPS + 1 if chosen["label_weights"] else 0)
    names = ["latent_weights.mean", "loadings", "bias"]
    for epoch, (one, two) in enumerate(zip(first, other, strict=True)):
        for name in names:
            np.testing.assert_array_equal(one[name], two[name])
        if "label_weights.mean" in one:
            same = np.array_equal(*(by_feature(parameters, DATASET.D) for parameters in (one, two)))
            assert same == (epoch < 3 + SWEEPS)


def coordinates_and_labels(dataset, arguments):
    _, _, preprocessed, settings = arguments
    return preprocessed.coordinates(dataset.features, settings.dtype), dataset.labels


def by_feature(parameters, D):
    """Return the weights on features that the points of each label have, K×D, those that are held out excepted."""
    _, held = calibration_points(prepared(DATASET, **IN_WEIGHT_SPACE)[3], DATASET.labels)
    indptr, columns, mean = (parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean"))
    dense = sp.csr_array((mean, columns, indptr), shape=(DATASET.K, D)).toarray()
    seen = without_labels_of(DATASET.labels, held).astype(float).T @ np.abs(DATASET.features)
    return np.where(seen.toarray() > 0, dense, 0)


@pytest.mark.usefixtures("_many_held_out")
@pytest.mark.parametrize("chosen", [{"label_weights": True}], ids=str)
def test_the_map_in_weight_space_is_fitted_to_the_model_before_the_last_sweep(chosen):
    arguments = features, labels, preprocessed, settings = prepared(DATASET, **IN_WEIGHT_SPACE | chosen)
    found = train(*arguments).parameters["calibration"]
    assert Calibration.are_valid(found)
    trained, held = calibration_points(settings, labels)
    seen = []
    loop = training._attempts(*coordinates_and_labels(DATASET, arguments), None, settings, None)._make_loop(None)
    loop.run(after_epoch=lambda epoch, parameters: seen.append({n: v.copy() for n, v in parameters().items()}))
    parameters = seen[-2] if chosen["label_weights"] else seen[-1]
    if chosen["label_weights"]:
        # A model that has never seen the held-out points has no weights on features that only these have.
        dense = by_feature(parameters, DATASET.D) != 0
        rows = np.repeat(np.arange(DATASET.K), np.diff(parameters["label_weights.indptr"]))
        hidden = ~dense[rows, parameters["label_weights.features"]]
        parameters["label_weights.mean"][hidden] = 0
        parameters["label_weights.log_variance"][hidden] = -40
    assert_fitted(found, parameters, arguments, held, trained)


def assert_fitted(coefficients, parameters, arguments, held, trained):
    """Assert that a map was fitted to the probabilities of held-out points."""
    features, labels, preprocessed, settings = arguments
    parameters = {name: value for name, value in parameters.items() if name != "calibration"}
    known = np.flatnonzero(labels[trained].sum(axis=0))
    truth = labels[held].toarray()
    kept = truth[:, known].any(axis=1) | ~truth.any(axis=1)
    predictor = MLGPFPredictor(settings, preprocessed, parameters, DATASET.D)
    scores, _ = predictor.score(features[held[kept]], "probability")
    order = np.argsort(-scores, axis=1, kind="stable")[:, :RANKS]
    ranked = (np.take_along_axis(array, order, axis=1) for array in (scores, truth[kept]))
    np.testing.assert_allclose(coefficients, fit_calibration(*ranked).coefficients, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_map_outside_of_weight_space_is_fitted_to_the_validation_part(pooled):
    arguments = prepared(DATASET, refit=False, patience=2, epochs=4, regression_points=1000 * pooled, calibration=True)
    found = train(*arguments).parameters
    trained, held = hold_out(120, 0.4, np.random.default_rng([0, 1]))
    if "regression.weights" in found:
        # That of the training part decides.
        assert pooled
        coordinates, labels = coordinates_and_labels(DATASET, arguments)
        found |= training._regression(coordinates.select(trained), labels[trained], found, arguments[3], silent)
    assert_fitted(found["calibration"], found, arguments, held, trained)
    # The refit has the same map, of the model that was trained on a part.
    again = train(*arguments[:3], dataclasses.replace(arguments[3], refit=True))
    assert Calibration.are_valid(again.parameters["calibration"])


@pytest.mark.usefixtures("_many_held_out")
@pytest.mark.parametrize("chosen", [{}, IN_WEIGHT_SPACE], ids=["validation", "weight space"])
def test_without_calibration_there_is_no_map(chosen):
    arguments = prepared(DATASET, **{"epochs": 3} | chosen | {"calibration": False})
    found = train(*arguments)
    assert "calibration" not in found.parameters
    if chosen:
        coordinates, labels = coordinates_and_labels(DATASET, arguments)
        expected, history = run_inference(coordinates, labels, None, arguments[3])
        assert len(history) == len(found.history) == 3 + SWEEPS
        for name, value in expected.items():
            np.testing.assert_array_equal(found.parameters[name], value)
    # Other draws are as without it.
    same = train(*arguments[:3], dataclasses.replace(arguments[3], calibration=True))
    assert "calibration" in same.parameters
    if not chosen:
        np.testing.assert_array_equal(same.parameters["loadings"], found.parameters["loadings"])


@pytest.mark.parametrize(
    "chosen", [{"validation": 0, "calibration": True}, IN_WEIGHT_SPACE], ids=["no validation", "weight space"]
)
def test_nothing_is_calibrated_if_nothing_is_held_out(chosen):
    assert "calibration" not in train(*prepared(DATASET, **{"epochs": 2} | chosen)).parameters


@pytest.mark.usefixtures("_many_held_out")
@pytest.mark.parametrize("chosen", [{"label_weights": True}], ids=str)
def test_resuming_after_every_step_in_weight_space_gives_the_same_result(tmp_path, chosen):
    problem = prepared(DATASET, **IN_WEIGHT_SPACE | {"optimiser": "adagrad"} | chosen)
    found, _ = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    expected = train(*problem)
    assert "calibration" in expected.parameters
    assert_same_result(found, expected)


@pytest.mark.usefixtures("_many_held_out")
@pytest.mark.parametrize(
    ("shared", "chosen"), [(9, {"validation": 0.25}), (10, {"validation": 0.25}), (9, IN_WEIGHT_SPACE)], ids=str
)
def test_nothing_is_calibrated_if_labels_of_held_out_points_are_new_to_the_model(chosen, shared):
    features, _, preprocessed, settings = prepared(DATASET, **{"epochs": 2, "calibration": True} | chosen)
    _, held = hold_out(120, 0.25, np.random.default_rng([0, 1]))
    # Every point has a label of its own; some that are held out have one that all others have, too.
    labels = np.eye(120, 121, dtype=bool)
    labels[:, 120] = True
    labels[held[shared:], 120] = False
    found = train(features, sp.csr_array(labels), preprocessed, settings).parameters
    assert ("calibration" in found) == (shared == 10)


@pytest.mark.usefixtures("_many_held_out")
def test_probabilities_that_are_not_finite_end_training(monkeypatch):
    monkeypatch.setattr(module, "fit_calibration", None)
    problem = prepared(DATASET, **IN_WEIGHT_SPACE)
    scores = MLGPFPredictor.scores
    monkeypatch.setattr(MLGPFPredictor, "scores", lambda *arguments: np.nan * scores(*arguments))
    with pytest.raises(NumericalError, match="a probability of a held-out point is not finite"):
        train(*problem)


def test_a_map_is_fitted_to_a_limited_number_of_points(monkeypatch):
    monkeypatch.setattr(module, "FITTED_MOST", 15)
    seen = []
    monkeypatch.setattr(module, "fit_calibration", lambda *arrays: seen.append(arrays) or fit_calibration(*arrays))
    found = train(*prepared(DATASET, calibration=True, epochs=3)).parameters
    assert Calibration.are_valid(found["calibration"])
    # 48 points are held out.
    ((probabilities, correct),) = seen
    assert 10 <= len(probabilities) == len(correct) <= 15


def test_a_restart_begins_without_a_map():
    hook = CalibrationAfterEpoch(1, None, None, None, None, None)
    hook.coefficients = [1.0, 1.0, 0.0, 0.0]
    hook.reset()
    assert hook.state().facts == {"calibration": None}
