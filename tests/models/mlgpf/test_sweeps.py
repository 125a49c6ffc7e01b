"""Training in weight space: its sweeps and what they use."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from tests.training.interrupting import Interrupting, assert_same_result
from xmlgp.features.pipeline import find_inducing_inputs
from xmlgp.models.mlgpf import held_out, sweep
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights, prior_scales
from xmlgp.models.mlgpf.methods import Problem, load_method
from xmlgp.models.mlgpf.record import MLGPF
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.sweep import SWEEPS, sweep_count
from xmlgp.models.mlgpf.train import Training, train
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import read_checkpoint
from xmlgp.training.loop import Loop

EPOCHS = 3
SMALL = {"inducing": "features", "label_weights": True, "factors": 3, "epochs": EPOCHS, "batch_size": 10}
WITHOUT_CHOICE = {"calibration": False, "neighbours": False}


def prepared(dataset, **options):
    """Return the arguments of `train`."""
    settings = MLGPFSettings(**SMALL | options)
    return dataset.features, dataset.labels, find_inducing_inputs(dataset.features, settings), settings


def stages(**options):
    features, labels, preprocessed, settings = prepared(small_dataset(), **WITHOUT_CHOICE | options)
    coordinates = preprocessed.inputs(features, settings.dtype)
    return Training(load_method(settings), Problem(settings, features, labels, preprocessed, coordinates))


def test_there_are_as_many_epochs_as_stages_have():
    assert stages().epochs == EPOCHS + SWEEPS
    assert stages(label_weights=False).epochs == EPOCHS


@pytest.mark.parametrize(
    ("wanted", "factors", "labels", "used"),
    [(None, 2, 26, True), (None, 3, 26, False), (None, 3, 25, True), (True, 3, 26, True), (False, 2, 7, False)],
)
def test_label_weights_are_used_by_default_with_few_factors_or_labels(wanted, factors, labels, used):
    settings = MLGPFSettings(inducing="features", label_weights=wanted, factors=factors)
    assert bool(sweep_count(settings, 40, 25, labels)) == used


def test_sweeps_are_counted_apart():
    inference = stages()
    _, history = Loop(lambda: inference).run()
    assert [entry.get("sweep") for entry in history] == [None] * EPOCHS + [1, 2]
    assert MLGPF.epochs(history[-1]) == f"{EPOCHS} epochs and 2 sweeps over the labels"
    assert MLGPF.epochs(history[EPOCHS]) == f"{EPOCHS} epochs and 1 sweep over the labels"
    assert MLGPF.epochs(history[0]) == "1 epoch"


def test_sweeps_update_weights_and_prior_variances_with_the_scales_of_all_points(monkeypatch):
    seen = []
    for name in ("prior_precision", "update_prior_variances"):
        original = getattr(LabelWeights, name)

        def recorded(*arguments, original=original):
            seen.append(arguments[-1])
            return original(*arguments)

        monkeypatch.setattr(LabelWeights, name, recorded)
    Loop(stages).run()
    assert len(seen) == 2 * SWEEPS
    for scales in seen:
        np.testing.assert_array_equal(scales, prior_scales(small_dataset().labels.sum(axis=0), np.float32))


def test_the_second_sweep_lists_negatives_by_label_weights_too(tmp_path):
    arguments, path = prepared(small_dataset(), epochs=1, **WITHOUT_CHOICE), tmp_path / "checkpoint"

    def interrupt(steps):
        with pytest.raises(Interrupted):
            train(*arguments, checkpoints=Interrupting(path, steps))

    interrupt(1)
    total, shortlists = read_checkpoint(path).facts["steps"], []
    path.unlink()
    # Each of two sweeps lists the negatives of all points in a step, and updates the weights of all labels in another.
    # Between the lists only W changes.
    for left in (3, 1):
        interrupt(total - left)
        with np.load(path) as arrays:
            shortlists.append(arrays["shortlist"])
        path.unlink()
    assert (shortlists[0] != shortlists[1]).any()


@pytest.mark.parametrize("calibration", [True, False])
def test_the_model_is_the_same_wherever_blocks_are_computed(in_files, monkeypatch, calibration):
    # With held-out points there is a third sweep, over blocks that are lists of points.
    monkeypatch.setattr(held_out, "CALIBRATION_SHARE", 0.1)
    monkeypatch.setattr(held_out, "CALIBRATION_LEAST", 1)
    monkeypatch.setattr(sweep, "POINT_BLOCK", 40)
    monkeypatch.setattr(sweep, "LATENT_BLOCK", 128)
    monkeypatch.setattr(sweep, "LABEL_BLOCK", 30)
    sizes = {"factors": 4, "epochs": 2, "batch_size": 100, "label_sample": 30}
    arguments = prepared(small_dataset(N=300, D=60, K=80), calibration=calibration, **sizes)
    here = train(*arguments)
    assert_same_result(train(*arguments, executor=in_files), here)
    assert ("calibration" in here.parameters) == calibration
    assert np.abs(here.parameters["label_weights.mean"]).max() > 0.01


def test_the_heaviest_words_are_those_of_largest_magnitude(monkeypatch):
    monkeypatch.setattr(sweep, "HEAVIEST", 2)
    words = sp.csr_array(np.array([[0.1, -0.9, 0, 0.5], [0, 0, 0.2, 0], [0, 0, 0, 0]], np.float32))
    chosen = sweep._heaviest(words)
    np.testing.assert_array_equal(chosen.toarray(), np.array([[0, -0.9, 0, 0.5], [0, 0, 0.2, 0], [0] * 4], np.float32))
    assert chosen.dtype == np.float32
    assert chosen.has_sorted_indices
