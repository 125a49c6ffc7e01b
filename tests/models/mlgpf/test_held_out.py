"""Points held out of training: how they are chosen, that training does not see them, and what is chosen on them."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.mlgpf.test_train import assert_same_parameters, prepared
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset, Features
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.metrics.probabilities import top_calibration_statistics
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.models.mlgpf import held_out as module
from xmlgp.models.mlgpf.held_out import calibration_points, notes, without_labels_of
from xmlgp.models.mlgpf.methods import Problem, load_method
from xmlgp.models.mlgpf.predictor import MLGPFPredictor, word_scales
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.sweep import SWEEPS
from xmlgp.models.mlgpf.train import Training, run_inference, train
from xmlgp.neighbours.predictions import Neighbours, scaled_words
from xmlgp.prediction.calibration import CALIBRATION, RANKS, fit_calibration
from xmlgp.runtime.errors import NumericalError
from xmlgp.training.loop import Loop
from xmlgp.training.result import label_counts

DATASET = small_dataset(N=120, K=12)
IN_WEIGHT_SPACE = {"epochs": 3, "label_sample": 6, "learning_rate": None}
INDUCING = IN_WEIGHT_SPACE | {"inducing": "free"}
BOTH = pytest.mark.parametrize("chosen", [INDUCING, IN_WEIGHT_SPACE], ids=["free", "weight space"])


def changed_labels(rows):
    """Return the labels, those of some points swapped for those that they do not have."""
    labels = DATASET.labels.toarray()
    labels[rows] = ~labels[rows]
    return sp.csr_array(labels)


@pytest.mark.parametrize("inducing", ["features", "free"])
def test_the_number_of_points(inducing):
    settings = MLGPFSettings(inducing=inducing)
    for N, expected in [(90, 0), (100, 10), (999, 100), (2000, 200), (6000, 400), (20_000, 1000), (50_000, 2000)]:
        labels = sp.csr_array((np.ones(N, bool), (np.arange(N), np.zeros(N, int))), shape=(N, 3))
        trained, held = calibration_points(settings, labels)
        assert len(held) == expected
        np.testing.assert_array_equal(np.union1d(trained, held), np.arange(N))
        assert len(trained) == N - expected
        assert not len(calibration_points(dataclasses.replace(settings, calibration=False), labels)[1])
        assert not len(calibration_points(settings, sp.csr_array(labels.shape, dtype=bool))[1])


def test_points_of_a_group_are_held_out_together():
    random = np.random.default_rng(0)
    labels = sp.csr_array((np.ones(900, bool), (np.arange(900), np.zeros(900, int))), shape=(900, 3))
    settings = MLGPFSettings()
    for groups in random.integers(1, 200, 900), random.integers(0, 20, 900), np.zeros(900, int):
        trained, held = calibration_points(settings, labels, groups)
        np.testing.assert_array_equal(np.union1d(trained, held), np.arange(900))
        assert set(groups[held]) & set(groups[trained]) <= {0}
        assert 70 <= len(held) <= 110
    # None of these groups is small enough.
    large = random.integers(1, 4, 900)
    assert not len(calibration_points(settings, labels, large)[1])
    points = Dataset(Features(labels.astype(np.float32)), labels)
    (note,) = notes(settings, dataclasses.replace(points, groups=large))
    assert note.startswith("no points are held out, as groups are too large, or ")
    assert not notes(settings, points)
    assert not notes(settings, dataclasses.replace(points, groups=np.arange(900)))
    assert not notes(dataclasses.replace(settings, calibration=False), dataclasses.replace(points, groups=large))


def test_labels_of_points_are_left_out():
    found = without_labels_of(DATASET.labels, np.array([0, 7, 119]))
    expected = DATASET.labels.toarray()
    expected[[0, 7, 119]] = False
    np.testing.assert_array_equal(found.toarray(), expected)


def epochs_of(arguments):
    """Return the parameters after each epoch; `run_inference` holds out no points, so the loop is made here."""
    seen = []
    Loop(Training, load_method(arguments[3]), problem_of(arguments)).run(
        after_epoch=lambda epoch, parameters: seen.append({n: v.copy() for n, v in parameters().items()})
    )
    return seen


def problem_of(arguments):
    features, labels, preprocessed, settings = arguments
    return Problem(settings, features, labels, preprocessed, preprocessed.inputs(features, settings.dtype))


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", [{"label_weights": True}, {"label_weights": False}], ids=str)
def test_training_in_weight_space_sees_held_out_points_in_the_last_sweep_only(monkeypatch, chosen):
    # The features that labels have weights on come from all points; here, they are all features.
    K, D = DATASET.K, DATASET.D
    pattern = np.arange(K + 1) * D, np.tile(np.arange(D, dtype=np.int32), K)
    monkeypatch.setattr("xmlgp.models.mlgpf.label_weights.posterior.label_features", lambda *arguments: pattern)
    arguments = prepared(DATASET, **IN_WEIGHT_SPACE | chosen)
    _, held = calibration_points(arguments[3], DATASET.labels)
    assert len(held) == 30
    changed = arguments[0], changed_labels(held), *arguments[2:]
    first, other = epochs_of(arguments), epochs_of(changed)
    assert len(first) == 3 + (SWEEPS if chosen["label_weights"] else 0)
    names = ["latent_weights.mean", "latent_weights.log_variance", "latent_weights.log_prior", "loadings", "bias"]
    for epoch, (one, two) in enumerate(zip(first, other, strict=True)):
        for name in names:
            np.testing.assert_array_equal(one[name], two[name])
        if "label_weights.mean" in one:
            same = np.array_equal(*(by_feature(parameters, arguments) for parameters in (one, two)))
            assert same == (epoch < 2 + SWEEPS)


def test_training_with_other_inducing_inputs_does_not_see_held_out_points(request):
    arguments = prepared(DATASET, **INDUCING)
    features, labels, preprocessed, settings = arguments
    before = train(*arguments)
    request.getfixturevalue("many_held_out")
    trained, held = calibration_points(settings, labels)
    assert len(held) == 30
    found = train(*arguments)
    problem = problem_of(arguments)
    coordinates = problem.coordinates.select(trained)
    problem = problem._replace(features=features[trained], labels=labels[trained], coordinates=coordinates)
    parameters, history = run_inference(problem)
    assert [epoch["bound"] for epoch in found.history] == [epoch["bound"] for epoch in history]
    coefficients = found.parameters.pop("calibration")
    assert_same_parameters(found.parameters, parameters)
    assert not np.array_equal(found.parameters["loadings"], before.parameters["loadings"])
    assert_fitted(coefficients, parameters, arguments)
    # Counts of points are those of all.
    np.testing.assert_array_equal(found.parameters["statistics.labels"], labels.sum(axis=0))


def by_feature(parameters, arguments):
    """Return the weights on features that the points of each label have, K×D, those that are held out excepted."""
    features, labels, _, settings = arguments
    _, held = calibration_points(settings, labels)
    indptr, columns, mean = (parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean"))
    dense = sp.csr_array((mean, columns, indptr), shape=(labels.shape[1], features.D)).toarray()
    seen = without_labels_of(labels, held).astype(float).T @ np.abs(features.sparse)
    return np.where(seen.toarray() > 0, dense, 0)


def before_held_out_points(arguments):
    """Return the parameters of a model that has seen nothing of the held-out points."""
    seen = epochs_of(arguments)
    if not arguments[3].label_weights:
        return seen[-1]
    parameters = seen[-2]
    # Such a model has no weights on features that only these points have.
    dense = by_feature(parameters, arguments) != 0
    rows = np.repeat(np.arange(len(dense)), np.diff(parameters["label_weights.indptr"]))
    hidden = ~dense[rows, parameters["label_weights.features"]]
    assert hidden.any()
    parameters["label_weights.mean"][hidden] = 0
    parameters["label_weights.log_variance"][hidden] = -40
    return parameters


def scores_of_held_out(parameters, arguments):
    """Return the probabilities and labels of the held-out points that have a known label or none."""
    features, labels, preprocessed, settings = arguments
    trained, held = calibration_points(settings, labels)
    known = np.flatnonzero(labels[trained].sum(axis=0))
    truth = labels[held].toarray()
    kept = truth[:, known].any(axis=1) | ~truth.any(axis=1)
    predictor = MLGPFPredictor(settings, preprocessed, parameters, features.D)
    return predictor.score(features[held[kept]], "probability")[0], truth[kept]


def assert_fitted(coefficients, parameters, arguments):
    """Assert that a map was fitted to the probabilities of held-out points."""
    scores, truth = scores_of_held_out(parameters, arguments)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :RANKS]
    ranked = (np.take_along_axis(array, order, axis=1) for array in (scores, truth))
    np.testing.assert_allclose(coefficients, fit_calibration(*ranked).coefficients, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", [{}, {"label_weights": False}], ids=["label weights", "no label weights"])
def test_the_map_fits_the_probabilities_of_held_out_points(chosen):
    arguments = prepared(DATASET, **{"epochs": 20, "learning_rate": None, "neighbours": False} | chosen)
    trained = train(*arguments)
    found = trained.parameters
    assert arrays_fit({"calibration": found["calibration"]}, {CALIBRATION: True}, {})
    parameters = before_held_out_points(arguments)
    assert_fitted(found["calibration"], parameters, arguments)
    scores, truth = scores_of_held_out(parameters, arguments)
    assert trained.held_out.points == len(truth)
    shown = sp.csr_array(scores), sp.csr_array(truth)
    np.testing.assert_allclose(trained.held_out[1:4], [ranking_statistics(*shown)[f"P@{k}"].value for k in (1, 3, 5)])
    errors = trained.held_out.uncalibrated_error, trained.held_out.calibrated_error
    np.testing.assert_allclose(errors[0], top_calibration_statistics(*shown, (5,))["ECE@5"].value, rtol=1e-4)
    assert 0 < errors[1] < 1


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", [{}, {"label_weights": False}], ids=["label weights", "no label weights"])
def test_the_map_fits_probabilities_that_are_pooled_with_neighbours_among_the_other_points(chosen):
    arguments = prepared(DATASET, **{"epochs": 20, "learning_rate": None} | chosen)
    features, labels, preprocessed, settings = arguments
    found = train(*arguments).parameters
    every = Neighbours.of(found, features.D, labels.shape[1])
    assert every.choices.weight > 0
    np.testing.assert_array_equal(every.labels.toarray(), labels.toarray())
    trained, _ = calibration_points(settings, labels)
    parameters = before_held_out_points(arguments)
    words = scaled_words(preprocessed.weigh(features[trained]).sparse, word_scales(parameters, features.D))
    others = Neighbours.build(words, labels[trained], every.choices)
    assert_fitted(found["calibration"], parameters | others.parameters() | label_counts(labels[trained]), arguments)


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize(
    ("shared", "chosen"), [(9, INDUCING), (10, INDUCING), (9, IN_WEIGHT_SPACE), (10, IN_WEIGHT_SPACE)], ids=str
)
def test_nothing_is_calibrated_if_labels_of_held_out_points_are_new_to_the_model(chosen, shared):
    features, _, preprocessed, settings = prepared(DATASET, **chosen | {"epochs": 2})
    _, held = calibration_points(settings, DATASET.labels)
    # Every point has a label of its own; some that are held out have one that all others have, too.
    labels = np.eye(120, 121, dtype=bool)
    labels[:, 120] = True
    labels[held[shared:], 120] = False
    found = train(features, sp.csr_array(labels), preprocessed, settings).parameters
    assert ("calibration" in found) == (shared == 10)


@pytest.mark.usefixtures("many_held_out")
@BOTH
def test_probabilities_that_are_not_finite_end_training(monkeypatch, chosen):
    monkeypatch.setattr(module, "fit_calibration", None)
    problem = prepared(DATASET, **chosen)
    scores = MLGPFPredictor.scores
    monkeypatch.setattr(MLGPFPredictor, "scores", lambda *arguments: np.nan * scores(*arguments))
    with pytest.raises(NumericalError, match="a probability of a held-out point is not finite"):
        train(*problem)
