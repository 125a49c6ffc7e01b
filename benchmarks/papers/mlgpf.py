"""Cells of MLGPF: ranking measures, and the two times of table 2 of [S]."""

import dataclasses
import math
import statistics
import timeit
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.papers.cells import KS, Cell, CellData
from xmlgp.features.inputs import Inputs, Points
from xmlgp.gp.bound import Bound
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import values
from xmlgp.models.mlgpf.methods import InducingMethod, Problem
from xmlgp.models.mlgpf.predictor import MLGPFPredictor
from xmlgp.models.mlgpf.record import MLGPF
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.train import run_inference
from xmlgp.models.model import Model
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import make_batch

__all__ = ["MLGPFCell", "time_bound"]

#: Number of evaluations that are timed; their median counts.
ROUNDS = 5


@dataclasses.dataclass(frozen=True)
class MLGPFCell(Cell[MLGPFSettings]):
    """A cell of the factor model, trained on all points."""

    model: ClassVar[Model] = MLGPF

    @classmethod
    def scale(cls, settings: MLGPFSettings, N: int, epochs_scale: float) -> MLGPFSettings:
        """Return settings with the number of epochs made explicit and multiplied; see `Cell.scale`."""
        return dataclasses.replace(settings, epochs=max(1, math.ceil(settings.epoch_count(N) * epochs_scale)))

    @classmethod
    def columns(cls, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the median seconds of the bound and of its KL terms; see `Cell.columns`."""
        return {name: float(np.median([result["timing"][name] for result in results])) for name in ("bound_s", "kl_s")}

    def run(self, data: CellData) -> dict[str, Any]:
        """Train and measure; see `Cell.run`."""
        train, test, preprocessed, coordinates, propensities = data
        settings = self.settings

        def measure(parameters: Mapping[str, NDArray[Any]]) -> dict[str, float]:
            blocks = MLGPFPredictor(settings, preprocessed, parameters, train.D).top(test.features, max(KS))
            return values(ranking_statistics(Scores.stack(list(blocks)).matrix, test.labels, KS, propensities))

        curve, after_epoch = self.curve_of(measure, settings.epochs)
        to_fit = Problem(settings, train.features, train.labels, preprocessed, coordinates)
        parameters, history = run_inference(to_fit, after_epoch=after_epoch)
        timing = time_bound(settings, parameters, coordinates, train.labels)
        return {"measures": measure(parameters), "history": history, "curve": curve, "timing": timing}


def time_bound(
    settings: MLGPFSettings, parameters: Mapping[str, NDArray[Any]], coordinates: Inputs, labels: csr_array
) -> dict[str, float]:
    """Measure one evaluation of the bound on a minibatch and one of its KL terms, each with its gradients."""
    method = InducingMethod(settings)
    latent = method.latent
    bound = Bound(method.latent, method.quadrature)
    rows = np.arange(min(settings.batch_size, labels.shape[0]))
    batch = make_batch(coordinates, labels, rows)
    no_points = Points(np.empty((0, coordinates.dimension), coordinates.dtype), np.empty(0, coordinates.dtype))

    def value_and_gradients() -> None:
        bound.value_and_gradients(parameters, batch)

    def kl_terms() -> None:
        moments, _, tape = latent.forward(parameters, no_points)
        # Without points the likelihood has no gradient.
        latent.backward(tape, moments)

    with one_blas_thread():
        return {
            name: statistics.median(timeit.repeat(action, number=1, repeat=ROUNDS))
            for name, action in {"bound_s": value_and_gradients, "kl_s": kl_terms}.items()
        }
