"""Cells of MLGPF: ranking measures, and the two times of table 2 of [S]."""

import dataclasses
import math
from typing import ClassVar

import numpy as np

from xmlgp.experiments.cells import KS, Cell
from xmlgp.experiments.timing import time_bound
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.train import run_inference
from xmlgp.model import Model
from xmlgp.prediction.scores_file import Scores

__all__ = ["MLGPFCell"]


@dataclasses.dataclass(frozen=True)
class MLGPFCell(Cell):
    """A cell of the factor model, trained on all points."""

    model: ClassVar[Model] = MLGPF

    @classmethod
    def scale(cls, settings, N, epochs_scale):
        """Return settings with the number of epochs made explicit and multiplied; see `Cell.scale`."""
        epochs = settings.epoch_count(N)
        return dataclasses.replace(settings, epochs=max(1, math.ceil(epochs * epochs_scale)))

    @classmethod
    def columns(cls, results):
        """Return the median seconds of the bound and of its KL terms; see `Cell.columns`."""
        return {name: float(np.median([result["timing"][name] for result in results])) for name in ("bound_s", "kl_s")}

    def run(self, problem):
        """Train and measure; see `Cell.run`."""
        train, test, preprocessed, coordinates, propensities = problem
        settings = self.settings

        def measure(parameters):
            blocks = MLGPFPredictor(settings, preprocessed, parameters, train.D).top(test.features, max(KS))
            return evaluate_ranking(Scores.stack(list(blocks)).matrix, test.labels, KS, propensities)

        curve, after_epoch = self.curve_of(measure, settings.epochs)
        arrays = coordinates, train.labels, preprocessed.inducing, settings
        parameters, history = run_inference(*arrays, after_epoch=after_epoch)
        timing = time_bound(settings, parameters, coordinates, train.labels)
        return {"measures": measure(parameters), "history": history, "curve": curve, "timing": timing}
