"""Training of MLGPF: validation, number of epochs, refit, and the exact GP."""

import contextlib
import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics import ndcg_score

from tests.grids import each_value
from tests.problems import paired_dataset, small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.errors import NumericalError
from xmlgp.gp.exact_gp import fit_exact_gp, scaled_features
from xmlgp.mlgpf import train as module
from xmlgp.mlgpf.held_out import HeldOut
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import REGRESSION_RANK, run_inference, train
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.training.schedules import default_epochs
from xmlgp.training.stopping import WINDOW, hold_out

#: Settings that overfit N = 60 points with K = 12 labels.
SMALL = {
    "inducing_count": 20, "factors": 8, "label_weights": True,
    "epochs": 40, "batch_size": 16, "learning_rate": 0.1, "validation": 0.4, "calibration": False,
}  # fmt: skip
DATASET = small_dataset(N=60, K=12)
#: A data set that the exact GP ranks better than the factor model.
PAIRED = paired_dataset(N=60, K=12)


def noisy_dataset():
    """Return a data set where one feature determines each label, and large irrelevant features dominate distances.

    The exact GP ranks it worse than the factor model.
    """
    random = np.random.default_rng(0)
    labels, others = random.random((60, 12)) < 0.2, random.random((60, 40)) < 0.2
    return Dataset(sp.csr_array(np.hstack([labels, 30 * others]).astype(np.float32)), sp.csr_array(labels))


NOISY = noisy_dataset()


def prepared(dataset, **chosen):
    """Preprocess; return the arguments of `train`."""
    settings = MLGPFSettings(**SMALL | chosen)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    return dataset.features, dataset.labels, preprocessed, settings


def coordinates_of(features, labels, preprocessed, settings):
    return preprocessed.coordinates(features, settings.dtype)


def trained_once(features, labels, preprocessed, settings, **options):
    """Train on all points without validation, retry or exact GP."""
    coordinates = preprocessed.coordinates(features, settings.dtype)
    return run_inference(coordinates, labels, preprocessed.inducing, settings, **options)


def untimed(history):
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]


def best_epoch(validation):
    """Return the first epoch where the mean of the last scores is highest."""
    scores = [entry["ndcg@5"] for entry in validation]
    return int(np.argmax([np.mean(scores[max(0, end - WINDOW) : end]) for end in range(1, len(scores) + 1)])) + 1


def regression_parameters(parameters):
    return {name: value for name, value in parameters.items() if name.startswith("regression.")}


def assert_same_parameters(found, expected):
    """Assert that parameters, except those of the exact GP and counts of points, are equal bit for bit."""
    found, expected = (
        {name: value for name, value in part.items() if not name.startswith(("regression.", "statistics."))}
        for part in (found, expected)
    )
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        assert found[name].tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize(
    "chosen", [{"negatives": 2}, {"inducing": "subspace", "basis_size": 9, "label_weights": False}], ids=str
)
def test_training_without_validation_runs_inference_once(chosen):
    arguments = prepared(DATASET, validation=0, epochs=3, **chosen)
    found = train(*arguments)
    parameters, history = trained_once(*arguments)
    assert_same_parameters(found.parameters, parameters)
    assert untimed(found.history) == untimed(history)
    assert found.validation is None


def test_refit_trains_on_all_points_for_the_best_number_of_epochs():
    arguments = prepared(DATASET, patience=3)
    found = train(*arguments)
    best = best_epoch(found.validation)
    # Validation continues for `patience` epochs after the best one.
    assert len(found.validation) == best + 3 < 20
    parameters, history = trained_once(*arguments[:3], dataclasses.replace(arguments[3], epochs=best))
    assert_same_parameters(found.parameters, parameters)
    assert untimed(found.history) == untimed(history)


@pytest.mark.parametrize("chosen", [{}, {"label_weights": False, "kernel": "se+linear", "ranking": "utility"}], ids=str)
def test_best_parameters_are_kept_without_refit(chosen):
    settings = {"refit": False, "patience": 3, "regression_points": 0, **chosen}
    features, labels, preprocessed, settings = arguments = prepared(DATASET, **settings)
    found = train(*arguments)
    assert found.history == found.validation
    best = best_epoch(found.validation)
    assert best < len(found.validation)

    trained, held = hold_out(60, 0.4, np.random.default_rng([0, 1]))
    seen = {}

    def after_epoch(epoch, parameters):
        if epoch == best:
            seen.update({name: value.copy() for name, value in parameters().items()})

    coordinates = coordinates_of(*arguments).select(trained)
    run_inference(coordinates, labels[trained], preprocessed.inducing, settings, after_epoch=after_epoch)
    assert_same_parameters(found.parameters, seen)
    # The best epoch is chosen by the nDCG of the held-out points, ranked by MacKay's approximation or by the mean.
    predictor = MLGPFPredictor(settings, preprocessed, found.parameters, DATASET.D)
    scores, std = predictor.score(features[held], "utility", with_std=True)
    if settings.ranking == "probability":
        scores = scores / np.sqrt(1 + np.pi / 8 * std**2)
    truth = labels[held].toarray()
    some = truth.any(axis=1)
    assert found.validation[best - 1]["ndcg@5"] == pytest.approx(
        100 * ndcg_score(truth[some], scores[some], k=5), rel=1e-6
    )


def test_training_does_not_see_held_out_points():
    _, held = hold_out(60, 0.4, np.random.default_rng([0, 1]))
    labels = DATASET.labels.toarray()
    labels[held] = ~labels[held]
    settings = {"refit": False, "patience": 9, "epochs": 4, "inducing_start": "rows"}
    found, other = (
        train(*prepared(dataset, **settings)) for dataset in (DATASET, Dataset(DATASET.features, sp.csr_array(labels)))
    )
    assert [entry["bound"] for entry in found.validation] == [entry["bound"] for entry in other.validation]
    assert [entry["ndcg@5"] for entry in found.validation] != [entry["ndcg@5"] for entry in other.validation]


def test_validation_history():
    found = train(*prepared(DATASET, patience=3))
    assert [entry["epoch"] for entry in found.validation] == list(range(1, len(found.validation) + 1))
    for entry in found.validation:
        assert entry.keys() == {"epoch", "bound", "seconds", "ndcg@5"}
        assert 0 <= entry["ndcg@5"] <= 100
    assert all(entry.keys() == {"epoch", "bound", "seconds"} for entry in found.history)


@pytest.mark.parametrize(("epochs", "half"), [(1, 1), (5, 3)])
def test_points_are_held_out_in_half_of_the_epochs(epochs, half):
    found = train(*prepared(DATASET, patience=1000, epochs=epochs))
    # Any epoch is among the last `WINDOW`.
    assert (len(found.validation), len(found.history)) == (half, epochs)


@pytest.mark.parametrize(("best", "epochs"), [(5, 5), (6, 20)])
def test_refit_trains_for_all_epochs_if_one_of_the_last_ranked_best(monkeypatch, best, epochs):
    scores = iter([50.0 + epoch if epoch <= best else 1.0 for epoch in range(1, 11)])
    monkeypatch.setattr(HeldOut, "ndcg", lambda *arguments: next(scores))
    found = train(*prepared(DATASET, patience=1000, epochs=20, regression_points=0))
    assert (len(found.validation), len(found.history)) == (10, epochs)


def test_default_number_of_epochs(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.settings.STEPS", 60)
    chosen = {"epochs": None, "batch_size": 6, "patience": 1000, "learning_rate": 1e-3, "factors": 2}
    assert len(train(*prepared(DATASET, **chosen)).validation) == math.ceil(default_epochs(36, 6, 60, 5) / 2)
    assert len(train(*prepared(DATASET, validation=0, **chosen)).history) == default_epochs(60, 6, 60, 5)


def test_same_seed_gives_the_same_model():
    first, again, other = (train(*prepared(DATASET, patience=3, seed=seed)) for seed in (0, 0, 1))
    assert_same_parameters(first.parameters, again.parameters)
    for name, value in regression_parameters(first.parameters).items():
        np.testing.assert_array_equal(again.parameters[name], value)
    assert untimed(first.validation) == untimed(again.validation)
    assert untimed(first.validation) != untimed(other.validation)
    assert first.parameters["loadings"].tobytes() != other.parameters["loadings"].tobytes()


def with_labels_of(rows):
    """Return the data set with labels at the given points only."""
    labels = DATASET.labels.toarray()
    labels[np.setdiff1d(np.arange(60), rows)] = False
    return Dataset(DATASET.features, sp.csr_array(labels))


@pytest.mark.parametrize("side", ["trained", "held out", "neither"])
def test_nothing_is_held_out_if_one_part_has_no_labels(side):
    sides = dict(zip(("held out", "trained"), hold_out(60, 0.4, np.random.default_rng([0, 1])), strict=True))
    # Only the other part has labels; with "neither", no part has.
    arguments = prepared(with_labels_of(sides.get(side, [])), epochs=2)
    found = train(*arguments)
    assert found.validation is None
    assert len(found.history) == 2
    assert_same_parameters(found.parameters, trained_once(*arguments)[0])
    assert regression_parameters(found.parameters)
    assert all(np.isfinite(value).all() for value in found.parameters.values())


@each_value(count=[1, 2, 3], refit=[True, False], rate=[0.1, 0.5])
def test_few_points(count, refit, rate):
    rows = np.flatnonzero(DATASET.labels.sum(axis=1) > 0)[:count]
    dataset = DATASET.rows(rows)
    found = train(*prepared(dataset, validation=rate, refit=refit, epochs=3))
    # One or two held-out points do not distinguish epochs.
    assert found.validation is None
    assert len(found.history) == 3
    assert regression_parameters(found.parameters)["regression.weights"].shape == (count, min(count, 12))
    assert all(np.isfinite(value).all() for value in found.parameters.values())


def test_nothing_is_held_out_for_a_single_label():
    dataset = dataclasses.replace(DATASET, labels=DATASET.labels[:, :1])
    assert train(*prepared(dataset, epochs=2)).validation is None


@pytest.mark.parametrize("limit", [11, 12])
def test_exact_gp_is_skipped_with_too_many_labels(monkeypatch, limit):
    monkeypatch.setattr(module, "REGRESSION_LABELS", limit)
    found = train(*prepared(DATASET, validation=0, epochs=1))
    assert bool(regression_parameters(found.parameters)) == (limit >= DATASET.K)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"ard": False}, {"kernel": "se+linear"}, {"inducing": "subspace"}],
    ids=str,
)
def test_exact_gp_uses_all_points_with_the_relevances_of_features(chosen):
    arguments = prepared(PAIRED, **{"epochs": 2, "validation": 0} | chosen)
    parameters = train(*arguments).parameters
    found, features = regression_parameters(parameters), coordinates_of(*arguments).weighted(slice(None))
    if "ard" in chosen or "inducing" in chosen:
        assert "regression.scales" not in found
    else:
        relevance = parameters[f"kernel.{'se' if chosen.get('kernel') == 'se' else 'linear'}.log_relevance"]
        assert relevance.std() > 0.001
        np.testing.assert_allclose(found["regression.scales"], np.exp(relevance / 2), rtol=1e-5)
        features = scaled_features(features, found["regression.scales"])
    expected = fit_exact_gp(features, PAIRED.labels, REGRESSION_RANK)
    for name in ("weights", "loadings", "mean"):
        np.testing.assert_array_equal(found[f"regression.{name}"], getattr(expected, name))
    stored = tuple(found[f"regression.{name}"] for name in ("values", "indices", "indptr"))
    np.testing.assert_array_equal(sp.csr_array(stored, shape=features.shape).toarray(), features.toarray())
    assert [array.dtype for array in stored] == [np.float32, np.int32, np.int64]


@pytest.mark.parametrize(("points", "regressed", "validation"), [(0, False, 0), (59, False, 0.4), (60, True, 0.4)])
def test_exact_gp_is_skipped_with_more_points_than_regression_points(points, regressed, validation):
    found = train(*prepared(PAIRED, regression_points=points, validation=validation, epochs=2))
    assert bool(regression_parameters(found.parameters)) == regressed


@pytest.mark.parametrize(("dataset", "better"), [(PAIRED, True), (NOISY, False)], ids=["paired", "noisy"])
def test_exact_gp_is_kept_only_if_it_ranks_held_out_points_better(dataset, better):
    features, labels, preprocessed, settings = arguments = prepared(dataset, refit=False)
    found = train(*arguments)
    trained, held = hold_out(60, 0.4, np.random.default_rng([0, 1]))
    factors = {name: value for name, value in found.parameters.items() if not name.startswith("regression.")}
    # Fit to the training part only, because the held-out points decide.
    features = coordinates_of(*arguments).weighted(trained)
    regression = fit_exact_gp(features, labels[trained], REGRESSION_RANK)._asdict()
    regression |= {"indptr": features.indptr, "indices": features.indices, "values": features.data}
    regression = {f"regression.{name}": value for name, value in regression.items()}
    truth = labels[held].toarray()
    some = truth.any(axis=1)
    without, pooled = (
        ndcg_score(truth[some], predictor.score(dataset.features[held])[0][some], k=5)
        for predictor in (
            MLGPFPredictor(settings, preprocessed, parameters, dataset.D)
            for parameters in (factors, factors | regression)
        )
    )
    assert (pooled > without + 0.01) == better
    assert (pooled < without - 0.01) != better
    assert bool(regression_parameters(found.parameters)) == better
    # In weight space nothing is held out that could decide.
    apart = train(*prepared(dataset, inducing="features", epochs=2))
    assert not regression_parameters(apart.parameters)
    # The refit does not change the decision.
    refitted = train(*arguments[:3], dataclasses.replace(settings, refit=True))
    assert bool(regression_parameters(refitted.parameters)) == better


@pytest.mark.parametrize(
    ("dataset", "validation", "trainings"),
    [(PAIRED, 0.4, ["exact GP", "exact GP"]), (NOISY, 0.4, ["exact GP", "no exact GP"])],
    ids=["kept", "not kept"],
)
def test_progress_of_every_stage_is_complete(dataset, validation, trainings):
    stages = []

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        done = []

        class Bar:
            def update(self, count=1, **facts):
                done.append(count)

        yield Bar()
        assert sum(done) == total
        stages.append(label)

    arguments = prepared(dataset, validation=validation)
    fit_exact_gp(coordinates_of(*arguments).weighted(slice(None)), dataset.labels, REGRESSION_RANK, progress=progress)
    regression = stages.copy()
    assert regression[0] == "covariances"
    stages.clear()
    train(*arguments, progress)
    assert stages == [
        stage for training in trainings for stage in ["train", *(regression if training == "exact GP" else [])]
    ]


def test_divergence_raises_an_error_with_advice():
    with pytest.raises(
        NumericalError,
        match="^training diverged after [0-9]+ steps?: .*; try a lower --learning-rate",
    ):
        train(*prepared(DATASET, kernel="se", learning_rate=1e30))


def test_predictions_are_better_than_label_frequencies():
    dataset, new = small_dataset(N=400, K=12).rows(slice(0, 300)), small_dataset(N=400, K=12).rows(slice(300, 400))
    arguments = prepared(dataset, validation=0.1, learning_rate=None, epochs=15)
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
