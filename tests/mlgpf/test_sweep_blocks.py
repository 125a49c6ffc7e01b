"""A sweep over the labels is the same wherever its blocks are computed."""

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.mlgpf import weight_space_ascent
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.preprocess.pipeline import find_inducing_inputs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.parametrize(("place", "dtype"), [("in_files", "float64"), ("cluster", "float32")])
@pytest.mark.parametrize("calibration", [True, False])
def test_the_model_is_that_of_this_machine(request, monkeypatch, place, dtype, calibration):
    # With held-out points there is a third sweep, over blocks that are lists of points.
    N = 2200 if calibration else 300
    monkeypatch.setattr(weight_space_ascent, "POINT_BLOCK", 40)
    monkeypatch.setattr(weight_space_ascent, "LATENT_BLOCK", 128)
    monkeypatch.setattr(weight_space_ascent, "label_blocks", lambda K: [(0, 30), (30, 61), (61, K)])
    dataset = small_dataset(N=N, D=60, K=80)
    sizes = {"factors": 4, "epochs": 2, "batch_size": 100, "label_sample": 30}
    settings = MLGPFSettings(inducing="features", label_weights=True, calibration=calibration, dtype=dtype, **sizes)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    here = train(dataset.features, dataset.labels, preprocessed, settings)
    there = train(dataset.features, dataset.labels, preprocessed, settings, work=request.getfixturevalue(place))
    assert there.parameters.keys() == here.parameters.keys()
    assert ("calibration" in here.parameters) == calibration
    for name, array in here.parameters.items():
        assert array.dtype == there.parameters[name].dtype
        np.testing.assert_array_equal(there.parameters[name], array, err_msg=name)
    assert [entry["bound"] for entry in there.history] == [entry["bound"] for entry in here.history]
    assert np.abs(here.parameters["label_weights.mean"]).max() > 0.01
