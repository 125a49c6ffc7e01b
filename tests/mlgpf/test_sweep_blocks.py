"""A sweep over the labels is the same wherever its blocks are computed."""

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.mlgpf import held_out, sweep
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.preprocess.pipeline import find_inducing_inputs


@pytest.mark.parametrize("calibration", [True, False])
def test_the_model_is_that_of_this_machine(in_files, monkeypatch, calibration):
    # With held-out points there is a third sweep, over blocks that are lists of points.
    monkeypatch.setattr(held_out, "CALIBRATION_SHARE", 0.1)
    monkeypatch.setattr(held_out, "CALIBRATION_LEAST", 1)
    monkeypatch.setattr(sweep, "POINT_BLOCK", 40)
    monkeypatch.setattr(sweep, "LATENT_BLOCK", 128)
    monkeypatch.setattr(sweep, "LABEL_BLOCK", 30)
    dataset = small_dataset(N=300, D=60, K=80)
    sizes = {"factors": 4, "epochs": 2, "batch_size": 100, "label_sample": 30}
    settings = MLGPFSettings(inducing="features", label_weights=True, calibration=calibration, **sizes)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    here = train(dataset.features, dataset.labels, preprocessed, settings)
    there = train(dataset.features, dataset.labels, preprocessed, settings, work=in_files)
    assert there.parameters.keys() == here.parameters.keys()
    assert ("calibration" in here.parameters) == calibration
    for name, array in here.parameters.items():
        assert array.dtype == there.parameters[name].dtype
        np.testing.assert_array_equal(there.parameters[name], array, err_msg=name)
    assert [entry["bound"] for entry in there.history] == [entry["bound"] for entry in here.history]
    assert np.abs(here.parameters["label_weights.mean"]).max() > 0.01
