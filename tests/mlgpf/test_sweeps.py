"""What sweeps over the labels use, seen in checkpoints."""

import numpy as np
import pytest

from tests.problems import small_dataset
from tests.training.interrupting import Interrupting
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import silent
from xmlgp.training.checkpoints import read_checkpoint


def test_the_second_sweep_lists_negatives_by_label_weights_too(tmp_path):
    dataset = small_dataset()
    settings = MLGPFSettings(
        inducing="features", label_weights=True, factors=3, epochs=1, calibration=False, regression_points=0
    )
    preprocessed, path = MLGPF.preprocess(dataset.features, settings, silent), tmp_path / "checkpoint"

    def interrupt(steps):
        checkpoints = Interrupting(path, {}, 0)
        checkpoints.steps = steps
        with pytest.raises(Interrupted):
            MLGPF.train(dataset.features, dataset.labels, preprocessed, settings, silent, checkpoints)

    interrupt(1)
    total, shortlists = read_checkpoint(path).facts["steps"], []
    # Each of two sweeps lists the negatives of all points in a step, and updates the weights of all labels in another.
    # Between the lists only W changes.
    for left in (3, 1):
        interrupt(total - left)
        with np.load(path) as arrays:
            shortlists.append(arrays["shortlist"])
    assert (shortlists[0] != shortlists[1]).any()
