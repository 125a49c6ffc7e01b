"""Tables of inference methods: an entry is all that a new method needs, and settings load no implementation."""

import subprocess
import sys

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.models.bmlpl import settings as bmlpl
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.fields import InferenceMethod
from xmlgp.models.gpc import settings as gpc
from xmlgp.models.table import MODELS, settings_from
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import silent
from xmlgp.training.inference import Inference


class Uniform(Inference):
    """Leaves all topics uniform."""

    objective = "log_posterior"

    def __init__(self, problem, random):
        self.epochs = problem.settings.passes
        self._shape = (problem.labels.shape[1], problem.settings.topics)
        self._dimensions = problem.coordinates.feature_count
        self._count = np.zeros(1)

    def step(self, epoch, done):
        self._count += 1
        return -1.0

    def arrays(self):
        return {"count": self._count}

    def parameters(self, epochs):
        (K, T), D = self._shape, self._dimensions
        shapes = {"topics": (K, T), "weights": (D, T), "intercepts": T, "shapes": T, "precisions": D, "shares": T}
        return {name: np.full(shape, 1 / K if name == "topics" else 1.0, "f4") for name, shape in shapes.items()}


def test_an_entry_in_the_table_is_all_that_a_new_method_needs(monkeypatch):
    method = InferenceMethod(f"{__name__}:Uniform", "uniform topics", iterations=3, settings=("thinning",))
    with pytest.raises(SettingsError):
        BMLPLSettings(inference="uniform")
    monkeypatch.setitem(bmlpl.INFERENCES, "uniform", method)
    settings = settings_from({"model": "bmlpl", "inference": "uniform", "topics": 2}, "test")
    assert settings.passes == 3
    assert settings.unused().keys() == {"burn_in", "batch_size", "cg_steps"}
    model, dataset = MODELS["bmlpl"], small_dataset()
    preprocessed = model.preprocess(dataset.features, settings, silent)
    trained = model.train(dataset.features, dataset.labels, preprocessed, settings, silent, None)
    assert [entry["log_posterior"] for entry in trained.history] == [-1, -1, -1]
    predictor = model.load_predictor()(settings, preprocessed, trained.parameters, dataset.D)
    assert predictor.score(dataset.features, "probability")[0].shape == (dataset.N, dataset.K)


@pytest.mark.parametrize("table", [bmlpl.INFERENCES, gpc.INFERENCES], ids=["bmlpl", "gpc"])
def test_every_entry_names_an_inference(table):
    for method in table.values():
        assert issubclass(method.load(), Inference)


@pytest.mark.parametrize("model", ["bmlpl", "gpc"])
def test_settings_load_neither_scipy_nor_numba(model):
    program = f"import sys, xmlgp.models.{model}.settings; sys.exit(bool({{'scipy', 'numba'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
