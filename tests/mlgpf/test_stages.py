"""Training in weight space: the priors of its label weights, and the cost of its steps, by which progress is shown."""

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.label_weights import posterior
from xmlgp.label_weights.posterior import prior_scales
from xmlgp.mlgpf import sweep
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import Problem, Training
from xmlgp.mlgpf.weight_space import SWEEPS, WeightSpaceMethod, sweep_count
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.training.loop import Loop

EPOCHS = 3
WITHOUT_CHOICE = {"calibration": False, "regression_points": 0}


def stages(N=40, K=7, **options):
    dataset = small_dataset(N=N, K=K)
    settings = MLGPFSettings(
        **{"inducing": "features", "factors": 3, "epochs": EPOCHS, "batch_size": 10} | WITHOUT_CHOICE | options
    )
    coordinates = find_inducing_inputs(dataset.features, settings).inputs(dataset.features, settings.dtype)
    return Training(WeightSpaceMethod(settings), Problem(settings, coordinates, dataset.labels, None))


def costs(inference, epoch):
    return [inference.cost(epoch, done) for done in range(inference.steps_in(epoch))]


@pytest.mark.parametrize("options", [{}, {"label_sample": 3}, {"negatives": 2}], ids=str)
def test_every_step_has_a_cost(options):
    inference = stages(label_weights=True, **options)
    assert inference.epochs == EPOCHS + SWEEPS
    assert not inference.equal_steps
    assert all(cost > 0 for epoch in range(inference.epochs) for cost in costs(inference, epoch))


def test_without_sweeps_all_steps_take_the_same_time():
    inference = stages(label_weights=False)
    assert (inference.epochs, inference.equal_steps) == (EPOCHS, True)


@pytest.mark.parametrize(
    ("wanted", "factors", "used"), [(None, 2, True), (None, 3, False), (True, 3, True), (False, 2, False)]
)
def test_label_weights_are_used_by_default_with_few_factors(wanted, factors, used):
    settings = MLGPFSettings(inducing="features", label_weights=wanted, factors=factors)
    assert bool(sweep_count(settings, 40, 25, 7)) == used


def test_the_cost_of_shortlists_grows_with_the_labels():
    few, many = (stages(K=K, label_weights=True) for K in (7, 70))
    assert costs(many, EPOCHS)[0] == pytest.approx(10 * costs(few, EPOCHS)[0])


def test_sweeps_are_counted_apart():
    inference = stages(label_weights=True)
    assert [inference.place(epoch) for epoch in (0, EPOCHS - 1, EPOCHS)] == [
        {"epoch": f"1/{EPOCHS}"},
        {"epoch": f"{EPOCHS}/{EPOCHS}"},
        {"epoch": f"{EPOCHS}/{EPOCHS}", "sweep": f"1/{SWEEPS}"},
    ]
    loop = Loop(lambda: inference)
    _, history = loop.run()
    assert [entry.get("sweep") for entry in history] == [None] * EPOCHS + [1, 2]
    assert MLGPF.epochs(history[-1]) == f"{EPOCHS} epochs and 2 sweeps over the labels"
    assert MLGPF.epochs(history[EPOCHS]) == f"{EPOCHS} epochs and 1 sweep over the labels"
    assert MLGPF.epochs(history[0]) == "1 epoch"


def test_prior_variances_of_rare_labels_are_larger(monkeypatch):
    monkeypatch.setattr(posterior, "RARE_SPREAD", 3.0)
    found = prior_scales(np.array([3, 1, 0]), np.float32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [2, 4, 4])


def test_sweeps_update_weights_and_prior_variances_with_these_scales(monkeypatch):
    seen = []
    for name in ("prior_of_training", "update_prior_variances"):
        original = getattr(sweep, name)

        def recorded(*arguments, original=original):
            seen.append(arguments[-1])
            return original(*arguments)

        monkeypatch.setattr(sweep, name, recorded)
    inference = stages(label_weights=True)
    for epoch in range(inference.epochs):
        inference.begin(epoch)
        for done in range(inference.steps_in(epoch)):
            inference.step(epoch, done)
    assert len(seen) == 2 * SWEEPS
    for scales in seen:
        np.testing.assert_array_equal(scales, prior_scales(small_dataset(N=40, K=7).labels.sum(axis=0), np.float32))
