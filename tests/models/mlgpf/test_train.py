"""Training of MLGPF: what it trains on, the number of epochs, and the second attempt."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics import ndcg_score

from tests.problems import small_dataset
from tests.training.interrupting import Interrupting, Recorder, assert_same_result, train_with_interruptions, untimed
from xmlgp.data.dataset import Dataset
from xmlgp.features.pipeline import find_inducing_inputs
from xmlgp.gp.bound import Bound
from xmlgp.models.mlgpf import held_out
from xmlgp.models.mlgpf.costs import expected_costs
from xmlgp.models.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.models.mlgpf.methods import Problem
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.models.mlgpf.settings import METHODS, MLGPFSettings
from xmlgp.models.mlgpf.train import RETRY_RATE, run_inference, train
from xmlgp.runtime.errors import ModelFolderError, NumericalError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import limit_threads
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint

#: Settings for N = 60 points with K = 12 labels, in weight space.
SMALL = {
    "inducing": "features", "inducing_count": 20, "factors": 8, "epochs": 10, "batch_size": 16, "learning_rate": 0.1,
}  # fmt: skip
DATASET = small_dataset(N=60, K=12)


def prepared(dataset, **chosen):
    """Preprocess; return the arguments of `train`. By default there are label weights where they are possible."""
    chosen = SMALL | chosen
    settings = MLGPFSettings(**{"label_weights": chosen["inducing"] == "features"} | chosen)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    return dataset.features, dataset.labels, preprocessed, settings


def trained_once(features, labels, preprocessed, settings, **options):
    """Train on all points without calibration or retry."""
    coordinates = preprocessed.inputs(features, settings.dtype)
    return run_inference(Problem(settings, features, labels, preprocessed, coordinates), **options)


def assert_same_parameters(found, expected):
    """Assert that parameters, except counts of points, are equal bit for bit."""
    found, expected = (
        {name: value for name, value in part.items() if not name.startswith("statistics.")}
        for part in (found, expected)
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
    arguments = prepared(DATASET, **{"epochs": 3, "neighbours": False} | chosen)
    found = train(*arguments)
    parameters, history = trained_once(*arguments)
    assert_same_parameters(found.parameters, parameters)
    assert untimed(found.history) == untimed(history)


@pytest.mark.parametrize("inducing", ["free", "features"])
def test_default_number_of_epochs(monkeypatch, inducing, held):
    methods = {name: dataclasses.replace(method, steps=140) for name, method in METHODS.items()}
    monkeypatch.setattr("xmlgp.models.mlgpf.settings.METHODS", methods)
    monkeypatch.setattr("xmlgp.models.mlgpf.settings.WEIGHT_SPACE", methods["features"])
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
    assert all(np.isfinite(value).all() for value in found.parameters.values())


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize(
    "options", [{}, {"neighbours": False}, {"label_weights": False}, {"inducing": "free"}], ids=str
)
def test_the_phases_of_training_are_those_that_are_expected(options):
    arguments = prepared(DATASET, epochs=2, **options)
    progress = Recorder()
    train(*arguments, progress)
    expected = [*expected_costs(arguments[3], DATASET.features, DATASET.labels, 15), "writing"]
    if options:
        expected = [phase for phase in expected if phase in progress.shares]
    assert list(progress.shares) == expected
    for shares in progress.shares.values():
        assert shares[0] is None
        assert shares[1:] == sorted(shares[1:])


def test_training_does_not_depend_on_the_number_of_threads():
    arguments = prepared(small_dataset(N=400, K=50), epochs=2)
    results = []
    for threads in (1, 2, 3):
        with limit_threads(threads):
            results.append(train(*arguments).parameters)
    for others in results[1:]:
        assert_same_parameters(others, results[0])


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
    found = train(*prepared(DATASET, **WITH_RATE))
    assert [epoch["learning_rate"] for epoch in found.history] == [0.1 * RETRY_RATE] * 3
    expected = train(*prepared(DATASET, **WITH_RATE | {"learning_rate": 0.1 * RETRY_RATE}))
    assert_same_parameters(found.parameters, expected.parameters)


def test_second_divergence_raises_an_error_with_the_gradient_and_the_step(fail_at):
    fail_at(5, 9)
    with pytest.raises(NumericalError) as caught:
        train(*prepared(DATASET, **WITH_RATE))
    assert str(caught.value) == (
        "training diverged after 3 steps: the gradient of loadings is not finite (a first attempt with learning rate "
        "0.1 diverged after 5 steps); try a lower learning_rate or another weighting"
    )


def test_divergence_before_the_first_step_is_not_retried(fail_at):
    fail_at(0)
    with pytest.raises(NumericalError, match="^training diverged before the first step: .* try another weighting"):
        train(*prepared(DATASET, **WITH_RATE))


def test_resuming_after_a_restart_gives_the_same_result(tmp_path, fail_at, held):
    problem = prepared(DATASET, **WITH_RATE)
    fail_at(3)
    expected = train(*problem)
    assert ("calibration" in expected.parameters) == held
    # Resuming repeats no step, so the same call fails.
    fail_at(3)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    assert interruptions > 6
    assert_same_result(found, expected)


def test_interruptions_do_not_allow_a_second_restart(tmp_path, fail_at):
    problem = prepared(DATASET, **WITH_RATE)
    fail_at(3, 6)
    with pytest.raises(NumericalError, match="a first attempt with learning rate 0.1 diverged after 3 steps"):
        train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    # The last checkpoint before the divergence is kept.
    assert read_checkpoint(tmp_path / "checkpoint").facts["step"] == 2


#: Points that are held out are ranked before epochs 1, 2, 3 and 6 of 10, counted from 0.
STOPPING = {"epochs": None, "batch_size": 6, "factors": 2, "label_weights": False}


@pytest.fixture
def scores(monkeypatch):
    """Return a function that sets the scores of parameters at the checks, and the list of these parameters."""
    monkeypatch.setattr(MLGPFSettings, "epoch_count", lambda self, N: self.epochs or 10)
    seen = []

    def set_scores(*values):
        seen.clear()
        monkeypatch.setattr(HeldOutChoices, "score", score)
        remaining[:] = values
        return seen

    def score(self, parameters):
        seen.append({name: value.copy() for name, value in parameters.items()})
        return remaining.pop(0)

    remaining = []
    return set_scores


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize(
    ("values", "best", "epochs"),
    [((3, 2), 0, 2), ((1, 2, 1.5), 1, 3), ((1, 2, 1.99, 1), 1, 6), ((1, 2, 3, 2.99), None, 10)],
)
def test_steps_end_where_held_out_points_are_ranked_worse(scores, values, best, epochs):
    seen = scores(*values)
    found = train(*prepared(DATASET, **STOPPING))
    assert len(seen) == len(values)
    assert len(found.history) == epochs
    for name in ("loadings", "bias", "latent_weights.mean"):
        assert best is None or found.parameters[name].tobytes() == seen[best][name].tobytes()
        assert all(
            one[name].tobytes() != found.parameters[name].tobytes() for one in seen if one is not seen[best or 0]
        )


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("chosen", [{"epochs": 5}, {"neighbours": False}, {"calibration": False}], ids=str)
def test_steps_do_not_end_early_with_epochs_or_without_what_ranks(scores, chosen):
    seen = scores()
    found = train(*prepared(DATASET, **STOPPING | chosen))
    assert not seen
    assert len(found.history) == chosen.get("epochs", 10)


@pytest.mark.usefixtures("many_held_out")
def test_resuming_does_not_change_where_steps_end(scores, tmp_path):
    problem = prepared(DATASET, **STOPPING)
    scores(1, 2, 1)
    expected = train(*problem)
    scores(1, 2, 1)
    found, interruptions = train_with_interruptions(train, problem, tmp_path / "checkpoint", itertools.repeat(1))
    assert interruptions > 30
    assert_same_result(found, expected)


@pytest.mark.usefixtures("many_held_out")
@pytest.mark.parametrize("name", ["choose", "top_calibration_statistics"])
def test_a_signal_within_the_choices_ends_training_before_them(monkeypatch, tmp_path, name):
    # What is measured depends on what was measured before, if that is left.
    monkeypatch.setattr(HeldOutChoices, "_measured_recall", lambda self, parameters: self._recall[1] + 0.25)
    problem = prepared(DATASET, epochs=2)
    expected = train(*problem)

    def interrupted(*arguments):
        error = Interrupted(2)
        error.was_asked_for = True
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(held_out, name, interrupted)
        with pytest.raises(Interrupted):
            train(*problem, checkpoints=CheckpointWriter(tmp_path / "checkpoint", {}, 1000))
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert checkpoint.facts["step"] > 0
    assert_same_result(
        train(*problem, checkpoints=CheckpointWriter(tmp_path / "checkpoint", {}, 1000, checkpoint)), expected
    )


@pytest.mark.usefixtures("many_held_out")
def test_a_checkpoint_with_an_impossible_score_is_refused(scores, tmp_path):
    scores(1, 2, 3, 4)
    problem = prepared(DATASET, **STOPPING)
    with pytest.raises(Interrupted):
        train(*problem, checkpoints=Interrupting(tmp_path / "checkpoint", 30))
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    damaged = CheckpointWriter(tmp_path / "checkpoint", {}, 1000, checkpoint)
    fill = checkpoint.fill

    def damage(arrays):
        fill(arrays)
        arrays["best.score"][:] = np.nan

    damaged.resume_from.fill = damage
    with pytest.raises(ModelFolderError, match="the checkpoint is damaged"):
        train(*problem, checkpoints=damaged)
