"""Unknown pairs in the training of MLGPF: what the sweeps, the held-out choices and the regression see of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.fourth_model import LOGISTIC
from tests.mlgpf.test_train import prepared
from tests.problems import small_dataset
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.data.dataset import Dataset
from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf import held_out, sweep
from xmlgp.mlgpf.held_out import HeldOutChoices
from xmlgp.mlgpf.method import Problem
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.train import Training, train
from xmlgp.prediction.calibration import MISSING, fit_calibration
from xmlgp.training.loop import Loop

DATASET = small_dataset(N=120, K=12)
POSITIVES = DATASET.labels.toarray()
UNKNOWN = ~POSITIVES & (np.random.default_rng(5).random(POSITIVES.shape) < 0.3)
UNKNOWN[:40, 3] = ~POSITIVES[:40, 3]
UNKNOWN[7] = ~POSITIVES[7]
UNKNOWN_PAIRS = sp.csr_array(UNKNOWN)
WEIGHT_SPACE = {"epochs": 3, "label_sample": 6, "learning_rate": None, "label_weights": True}
FREE = {"epochs": 3, "inducing": "free", "learning_rate": None}


def problem_of(**chosen):
    features, labels, preprocessed, settings = prepared(DATASET, **chosen)
    coordinates = preprocessed.inputs(features, settings.dtype)
    return Problem(settings, features, labels, preprocessed, coordinates, unknown=UNKNOWN_PAIRS)


@pytest.mark.usefixtures("many_held_out")
def test_sweeps_have_no_unknown_pairs(monkeypatch):
    problem, seen = problem_of(**WEIGHT_SPACE), []
    original = sweep.stratified_pairs

    def recorded(strata, first, last, *arguments):
        pairs = original(strata, first, last, *arguments)
        seen.append(pairs)
        return pairs

    monkeypatch.setattr(sweep, "stratified_pairs", recorded)
    training = Training(problem.settings.load_method(), problem)
    Loop(lambda: training).run()
    assert len(seen) == 2
    held = held_out.calibration_points(problem.settings, problem.labels)[1]
    for pairs, left_out in zip(seen, [held, held[:0]], strict=True):
        label = np.repeat(np.arange(DATASET.K), np.diff(pairs.starts))
        assert not UNKNOWN[pairs.points, label].any()
        np.testing.assert_array_equal(pairs.target, POSITIVES[pairs.points, label])
        judged = ~UNKNOWN
        judged[left_out] = False
        np.testing.assert_allclose(np.bincount(label, pairs.weight), judged.sum(axis=0), rtol=1e-6)
    listed = training.shortlist
    rows, columns = np.nonzero(listed >= 0)
    assert not (UNKNOWN | POSITIVES)[rows, listed[rows, columns]].any()
    assert not (listed[7] >= 0).any()


@pytest.mark.usefixtures("many_held_out")
def test_unknown_labels_are_left_out_of_held_out_rankings(monkeypatch):
    monkeypatch.setattr(held_out, "RANKS", 6)
    problem = problem_of(**FREE)
    trained, held = held_out.calibration_points(problem.settings, problem.labels)
    parameters, _ = Loop(
        Training, problem.settings.load_method(), problem._replace(unknown=None, settings=problem.settings)
    ).run()
    parameters.pop("calibration")
    choices = HeldOutChoices(problem, (trained, held), lambda: parameters)
    choices.step(0, 0)
    found = choices.parameters(1)
    predictor = MLGPFPredictor(problem.settings, problem.preprocessed, parameters, DATASET.D)
    scores = predictor.score(DATASET.features[held], "probability")[0]
    scores = np.where(UNKNOWN[held], 0, scores)
    order = np.argsort(-scores, axis=1)[:, :6]
    rows = np.arange(len(held))[:, None]
    p = np.where(UNKNOWN[held][rows, order], MISSING, scores[rows, order])
    np.testing.assert_allclose(
        found["calibration"], fit_calibration(p, POSITIVES[held][rows, order]).coefficients, rtol=1e-4, atol=1e-5
    )
    measured = evaluate_ranking(sp.csr_array(scores), problem.labels[held])
    assert choices.measured.precision_1 == pytest.approx(measured["P@1"])
    assert choices.measured.precision_5 == pytest.approx(measured["P@5"])
    assert "replay.probabilities" not in found


def test_ranks_that_a_point_lacks_do_not_count_in_the_calibration():
    random = np.random.default_rng(0)
    p = -np.sort(-random.random((60, 5)), axis=1)
    correct = random.random(p.shape) < p**2
    short = np.hstack([p, np.full((60, 2), MISSING)])
    expected = fit_calibration(p, correct).coefficients
    found = fit_calibration(short, np.hstack([correct, np.zeros((60, 2), bool)])).coefficients
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "chosen",
    [WEIGHT_SPACE | {"regression_points": 0}, FREE, FREE | {"negatives": 4}],
    ids=["weights", "free", "sampled"],
)
def test_a_model_with_unknown_pairs_keeps_no_points_to_learn_on(chosen):
    arguments = prepared(DATASET, **chosen)
    found = train(*arguments, unknown=UNKNOWN_PAIRS)
    without = train(*arguments)
    assert {name for name in without.parameters if name not in found.parameters} == {
        name for name in without.parameters if name.startswith("replay.")
    }
    # More is known of negatives without the mask, so labels are less likely; those of few judged points above all.
    expected = np.log((POSITIVES.sum(axis=0) + 0.5) / ((~POSITIVES & ~UNKNOWN).sum(axis=0) + 0.5))
    assert np.abs(found.parameters["bias"] - expected).mean() < np.abs(without.parameters["bias"] - expected).mean()


@pytest.mark.parametrize("chosen", [FREE, WEIGHT_SPACE | {"label_sample": 100}], ids=["free", "weights"])
def test_a_label_that_nobody_judged_learns_nothing(chosen):
    unknown = UNKNOWN.copy()
    unknown[:, 2] = True
    labels = POSITIVES.copy()
    labels[:, 2] = False
    features, _, preprocessed, settings = prepared(DATASET, **chosen)
    result = train(features, sp.csr_array(labels), preprocessed, settings, unknown=sp.csr_array(unknown))
    parameters = result.parameters
    # As rare as a label that none of the points has that are not held out, so that it is not likelier than others.
    assert parameters["bias"][2] == pytest.approx(np.log(0.5 / 108.5))
    assert all(np.isfinite(value).all() for value in parameters.values())


def test_models_that_take_no_unknown_labels_say_so():
    with pytest.raises(SettingsError, match="logistic takes all labels as known"):
        LOGISTIC.unknown_options(Dataset(DATASET.features, DATASET.labels, UNKNOWN_PAIRS))


@pytest.mark.usefixtures("many_held_out")
def test_a_resumed_run_ends_in_the_same_model(tmp_path):
    """Also from the checkpoint after the choices, whose rankings have different lengths."""
    problem = prepared(DATASET, **WEIGHT_SPACE)

    def train_masked(*arguments, **options):
        return train(*arguments, unknown=UNKNOWN_PAIRS, **options)

    expected = train_masked(*problem)
    found, interruptions = train_with_interruptions(train_masked, problem, tmp_path / "checkpoint", [1] * 99)
    assert interruptions > 30
    assert_same_result(found, expected)
