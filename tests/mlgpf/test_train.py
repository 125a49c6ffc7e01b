"""Training of MLGPF: what it trains on, the number of epochs, regression, and the second attempt."""

import contextlib
import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics import ndcg_score

from tests.problems import paired_dataset, small_dataset
from tests.training.interrupting import assert_same_result, train_with_interruptions, untimed
from xmlgp.data.dataset import Dataset
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Bound
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.mlgpf import weight_space
from xmlgp.mlgpf.held_out import calibration_points
from xmlgp.mlgpf.method import Problem
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import METHODS, MLGPFSettings
from xmlgp.mlgpf.train import RETRY_RATE, run_inference, train
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.regression import fitting
from xmlgp.regression.fitting import fit_regression
from xmlgp.regression.regression import Regression
from xmlgp.training.checkpoints import read_checkpoint

#: Settings for N = 60 points with K = 12 labels, in weight space.
SMALL = {
    "inducing": "features", "inducing_count": 20, "factors": 8, "epochs": 10, "batch_size": 16, "learning_rate": 0.1,
}  # fmt: skip
DATASET = small_dataset(N=60, K=12)
#: A data set that regression ranks better than the factor model.
PAIRED = paired_dataset(N=60, K=12)


def prepared(dataset, **chosen):
    """Preprocess; return the arguments of `train`. By default there are label weights where they are possible."""
    chosen = SMALL | chosen
    settings = MLGPFSettings(**{"label_weights": chosen["inducing"] == "features"} | chosen)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    return dataset.features, dataset.labels, preprocessed, settings


def trained_once(features, labels, preprocessed, settings, **options):
    """Train on all points without calibration, retry or regression."""
    coordinates = preprocessed.inputs(features, settings.dtype)
    return run_inference(Problem(settings, features, labels, preprocessed, coordinates), **options)


def regression_parameters(parameters):
    return {name: value for name, value in parameters.items() if name.startswith("regression.")}


def assert_same_parameters(found, expected):
    """Assert that parameters, except those that the points themselves make, are equal bit for bit."""
    others = ("regression.", "statistics.")
    found, expected = (
        {name: value for name, value in part.items() if not name.startswith(others)} for part in (found, expected)
    )
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        assert found[name].tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize(
    "chosen",
    [{}, {"label_weights": False}, {"inducing": "free", "negatives": 2}, {"inducing": "subspace", "basis_size": 9}],
    ids=str,
)
def test_training_on_few_points_runs_inference_on_all_of_them(chosen):
    arguments = prepared(DATASET, **{"epochs": 3} | chosen)
    found = train(*arguments)
    parameters, history = trained_once(*arguments)
    assert_same_parameters(found.parameters, parameters)
    assert untimed(found.history) == untimed(history)
    # Only in weight space regression joins.
    assert bool(regression_parameters(found.parameters)) == (arguments[3].inducing == "features")


@pytest.mark.parametrize("inducing", ["free", "features"])
def test_default_number_of_epochs(monkeypatch, inducing, held):
    methods = {name: dataclasses.replace(method, steps=140) for name, method in METHODS.items()}
    monkeypatch.setattr("xmlgp.mlgpf.settings.METHODS", methods)
    monkeypatch.setattr("xmlgp.mlgpf.settings.WEIGHT_SPACE", methods["features"])
    chosen = {"inducing": inducing, "epochs": None, "batch_size": 6, "learning_rate": 1e-3, "factors": 2}
    arguments = prepared(DATASET, label_weights=False, **chosen)
    found = train(*arguments)
    assert ("calibration" in found.parameters) == held
    # Points that are held out do not change it.
    assert len(found.history) == arguments[3].epoch_count(60) == 14
    assert arguments[3].epoch_count(45) != 14


def with_labels_of(rows):
    """Return the data set with labels at the given points only."""
    labels = DATASET.labels.toarray()
    labels[np.setdiff1d(np.arange(60), rows)] = False
    return Dataset(DATASET.features, sp.csr_array(labels))


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("side", ["trained", "held out", "neither"])
@pytest.mark.parametrize("inducing", ["free", "features"])
def test_nothing_is_calibrated_if_one_part_has_no_labels(inducing, side):
    arguments = prepared(DATASET, inducing=inducing, epochs=2)
    parts = calibration_points(arguments[3], DATASET.labels)
    assert len(parts[1]) == 15
    # Only the other part has labels; with "neither", no part has.
    rows = dict(zip(("held out", "trained"), parts, strict=True)).get(side, [])
    found = train(arguments[0], with_labels_of(rows).labels, *arguments[2:])
    assert "calibration" not in found.parameters
    assert bool(regression_parameters(found.parameters)) == (inducing == "features")
    assert all(np.isfinite(value).all() for value in found.parameters.values())


@pytest.mark.parametrize(
    ("points", "labels", "chosen", "regressed"),
    [
        (0, 12, {}, False),
        (59, 12, {}, False),
        (60, 12, {}, True),
        (60, 11, {}, False),
        (60, 12, {"label_weights": False}, True),
        (60, 12, {"inducing": "free"}, False),
        (60, 12, {"inducing": "subspace"}, False),
    ],
    ids=str,
)
def test_regression_joins_in_weight_space_with_at_most_so_many_points_and_labels(
    monkeypatch, points, labels, chosen, regressed
):
    monkeypatch.setattr(weight_space, "MOST_REGRESSED", labels)
    found = train(*prepared(PAIRED, **{"regression_points": points, "epochs": 2} | chosen))
    assert bool(regression_parameters(found.parameters)) == regressed


@pytest.mark.parametrize("chosen", [{}, {"label_weights": False, "weighting": "unit"}], ids=str)
def test_regression_uses_all_points_with_the_relevances_of_features(monkeypatch, chosen, held):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)
    monkeypatch.setattr(fitting, "FINE", 1e-6)
    arguments = prepared(PAIRED, **chosen)
    parameters = train(*arguments).parameters
    found, relevance = Regression.of(parameters, PAIRED.D), parameters["latent_weights.log_prior"]
    assert relevance.std() > 0.01
    np.testing.assert_allclose(found.scales, np.exp(relevance / 2), rtol=1e-5)
    # The held-out points are the last ones.
    trained, others = calibration_points(arguments[3], PAIRED.labels)
    assert len(others) == 15 * held
    order = np.concatenate([trained, others])
    features, labels = (arguments[2].inputs(arguments[0], "float32").weighted(slice(None)), PAIRED.labels[order])
    expected, _ = fit_regression(features[order].sparse, labels, np.exp(relevance / 2), 60)
    for name in ("weights", "loadings", "mean"):
        value = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-3, atol=1e-4 * np.abs(value).max())
    np.testing.assert_allclose(found.features.sparse.toarray(), expected.features.sparse.toarray(), rtol=1e-5)
    stored = [parameters[f"regression.{name}"].dtype for name in ("values", "indices", "indptr")]
    assert stored == [np.float32, np.int32, np.int64]


def test_a_model_is_trained_without_regression_if_it_cannot_be_fitted(monkeypatch, held):

    def fail(*arguments, **options):
        raise NumericalError("features are too large")

    monkeypatch.setattr(fitting, "fit_regression", fail)
    found = train(*prepared(PAIRED, epochs=2)).parameters
    expected = train(*prepared(PAIRED, epochs=2, regression_points=0)).parameters
    assert found.keys() == expected.keys()
    assert ("calibration" in found) == held
    assert_same_parameters(found, expected)


def test_regression_is_fitted_once(monkeypatch, held):
    fits = []

    def counted(features, labels, scales, leading, *rest):
        fits.append((features.shape[0], leading))
        return fit_regression(features, labels, scales, leading, *rest)

    monkeypatch.setattr(fitting, "fit_regression", counted)
    assert regression_parameters(train(*prepared(PAIRED, epochs=2)).parameters)
    assert fits == [(60, 45 if held else 60)]


def test_progress_of_every_stage_is_complete(held):
    stages, ended = [], []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        done = []
        stages.append(label)

        class Bar:
            def update(self, count=1, **facts):
                done.append(count)

        yield Bar()
        assert sum(done) == pytest.approx(total)
        ended.append(label)

    train(*prepared(PAIRED, epochs=2), progress)
    # Without the held-out points, then with them.
    assert stages == ["train", "covariances", *["regression"] * (1 + held)]
    assert sorted(ended) == sorted(stages)
    assert ended[-1] == "train"


@pytest.mark.parametrize("inducing", ["free", "features"])
def test_predictions_are_better_than_label_frequencies(inducing):
    dataset, new = small_dataset(N=400, K=12).rows(slice(0, 300)), small_dataset(N=400, K=12).rows(slice(300, 400))
    arguments = prepared(dataset, inducing=inducing, learning_rate=None, epochs=15)
    found = train(*arguments)
    predictor = MLGPFPredictor(arguments[3], arguments[2], found.parameters, dataset.D)
    truth = new.labels.toarray()
    some = truth.any(axis=1)
    frequency = np.broadcast_to(dataset.labels.toarray().mean(axis=0), truth.shape)
    baseline = ndcg_score(truth[some], frequency[some], k=5)
    utility, probability = (predictor.score(new.features, output)[0] for output in ("utility", "probability"))
    assert ndcg_score(truth[some], utility[some], k=5) > baseline + 0.1
    log_loss, by_frequency = (
        -np.where(truth, np.log(p), np.log1p(-p)).mean() for p in (probability.astype(float), frequency)
    )
    assert log_loss < 0.9 * by_frequency
    # The sigmoid of the mean utility ignores the variance, so it only approximates the probability.
    assert np.abs(expit(utility) - probability).max() < 0.2


@pytest.fixture
def fail_at(monkeypatch):
    """Return a function that makes the given calls of the bound fail, counted from 0 over all runs."""

    def at(*calls, name="loadings"):
        count = itertools.count()
        original = Bound.value_and_gradients

        def failing(self, *arguments, **options):
            if next(count) in calls:
                raise NumericalError(f"the gradient of {name} is not finite")
            return original(self, *arguments, **options)

        monkeypatch.setattr(Bound, "value_and_gradients", failing)

    return at


WITH_RATE = {"inducing": "free", "learning_rate": 0.1, "epochs": 3, "batch_size": 20}


def test_training_restarts_with_a_lower_learning_rate_after_divergence(fail_at):
    fail_at(5)
    found = train(*prepared(PAIRED, **WITH_RATE))
    assert [epoch["learning_rate"] for epoch in found.history] == [0.1 * RETRY_RATE] * 3
    expected = train(*prepared(PAIRED, **WITH_RATE | {"learning_rate": 0.1 * RETRY_RATE}))
    assert_same_parameters(found.parameters, expected.parameters)


def test_second_divergence_raises_an_error_with_the_gradient_and_the_step(fail_at):
    fail_at(5, 9)
    with pytest.raises(NumericalError) as caught:
        train(*prepared(PAIRED, **WITH_RATE))
    assert str(caught.value) == (
        "training diverged after 3 steps: the gradient of loadings is not finite (a first attempt with learning rate "
        "0.1 diverged after 5 steps); try a lower learning_rate or another weighting"
    )


def test_divergence_before_the_first_step_is_not_retried(fail_at):
    fail_at(0)
    with pytest.raises(NumericalError, match="^training diverged before the first step: .* try another weighting"):
        train(*prepared(PAIRED, **WITH_RATE))


def test_resuming_after_a_restart_gives_the_same_result(tmp_path, fail_at, held):
    problem = prepared(PAIRED, **WITH_RATE)
    fail_at(3)
    expected = train(*problem)
    assert ("calibration" in expected.parameters) == held
    # Resuming repeats no step, so the same call fails.
    fail_at(3)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    assert interruptions > 6
    assert_same_result(found, expected)


def test_interruptions_do_not_allow_a_second_restart(tmp_path, fail_at):
    problem = prepared(PAIRED, **WITH_RATE)
    fail_at(3, 6)
    with pytest.raises(NumericalError, match="a first attempt with learning rate 0.1 diverged after 3 steps"):
        train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    # The last checkpoint before the divergence is kept.
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"] == 2
