"""Sweeps over the labels on a Dask cluster: label weights that are those of one machine, bit for bit."""

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.mlgpf import weight_space_ascent
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.preprocess.pipeline import find_inducing_inputs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("calibration", [True, False])
def test_the_model_is_that_of_one_machine(cluster, monkeypatch, dtype, calibration):
    # With held-out points there is a third sweep, over blocks that are lists of points.
    N = 2200 if calibration else 300
    monkeypatch.setattr(weight_space_ascent, "POINT_BLOCK", 40)
    monkeypatch.setattr(weight_space_ascent, "label_blocks", lambda K: [(0, 30), (30, 61), (61, K)])
    dataset = small_dataset(N=N, D=60, K=80)
    sizes = {"factors": 4, "epochs": 2, "batch_size": 100, "label_sample": 30}
    settings = MLGPFSettings(inducing="features", label_weights=True, calibration=calibration, dtype=dtype, **sizes)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    local = train(dataset.features, dataset.labels, preprocessed, settings)
    shared = train(dataset.features, dataset.labels, preprocessed, settings, cluster=cluster)
    assert shared.parameters.keys() == local.parameters.keys()
    assert ("calibration" in local.parameters) == calibration
    for name, array in local.parameters.items():
        assert array.dtype == shared.parameters[name].dtype
        np.testing.assert_array_equal(shared.parameters[name], array, err_msg=name)
    assert [entry["bound"] for entry in shared.history] == [entry["bound"] for entry in local.history]
    assert np.abs(local.parameters["label_weights.mean"]).max() > 0.01
