"""The stochastic steps of learning on: over a batch alone, and over all points where all earlier ones are replayed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from xmlgp.mlgpf.stochastic import Schedule, Stochastic, default_rate
from xmlgp.preprocess.inputs import Inputs
from xmlgp.runtime.random_streams import Stream
from xmlgp.training.minibatches import hold_out

if TYPE_CHECKING:
    from xmlgp.mlgpf.learning_problem import LearningProblem
    from xmlgp.mlgpf.method import Parameters

__all__ = ["BatchSteps", "Refinement"]

#: Least number of passes over the batch.
LEAST_EPOCHS = 4

#: Loadings of a new label move if the batch has so many points without it. Otherwise nothing would keep them from
#: raising the utility of the label for all points.
LEAST_NEGATIVES = 20

#: Learning rate of the steps over the batch relative to that of training: they start near where they end.
RATE_SHARE = 0.5

#: Share of the steps over the batch that are made where steps over all points follow: more of them rank no better then.
STEPS_SHARE = 0.2

#: Share of the earlier points that the steps over all points visit, and the least number of them. Where the last tenth
#: of 118,000 points was learned, a quarter ranked test points as well as all; of 169,000 points with 28,164 labels, a
#: quarter lost 0.1 of P@1.
REFINED_SHARE = 0.5
REFINED_LEAST = 25_000

#: Where all earlier points are replayed, there is an epoch of steps over all points for so many epochs of training.
REFINEMENT_SHARE = 8

#: Learning rate of the steps over all points relative to that of training.
REFINEMENT_RATE = 0.25


class BatchSteps(Stochastic):
    """Stochastic steps over the batch alone.

    They move q(u), or q(t) of the features of the batch in weight space, and the loadings of labels of which the batch
    has at least as many points as came before, and `LEAST_NEGATIVES` without.
    """

    def __init__(self, problem: LearningProblem, random: np.random.Generator) -> None:
        settings = problem.batch.settings
        present = problem.present
        trained, _ = problem.split
        n = len(trained)
        counts = problem.counts[present]
        before = problem.counts_before[present]
        moving = {name: problem.parameters[name][present] for name in ("loadings", "bias")}
        # What a label without points has was drawn at random.
        moving["loadings"][before == 0] = 0
        start = problem.method.learning_start(
            problem.features[trained], problem.batch.coordinates, problem.parameters, problem.N
        )
        steps = problem.method.learning_steps * (STEPS_SHARE if problem.replays_all else 1)
        epochs = max(LEAST_EPOCHS, min(math.ceil(steps / -(-n // settings.batch_size)), n))
        labels = csr_array(problem.batch.labels[trained][:, present])
        super().__init__(
            problem.method,
            start.bound,
            start.parameters | moving,
            problem.method.batches(start.coordinates, labels),
            labels,
            random,
            Schedule(settings.batch_size, epochs, RATE_SHARE * default_rate(settings)),
            free=(before <= counts) & (n - counts >= LEAST_NEGATIVES),
        )
        self._model = problem.parameters
        self._rows = {"loadings": present, **start.rows}

    def model(self) -> Parameters:
        """Return the parameters of the model, with what the steps changed."""
        parameters = dict(self._model)
        trained = self.parameters()
        for name, rows in self._rows.items():
            parameters[name] = self._model[name].copy("K")
            parameters[name][rows] = trained[name]
        return parameters


class Refinement(Stochastic):
    """Stochastic steps over all points, replayed ones and those of the batch, which move T, Φ and b as in training.

    Of many replayed ones a random share is visited. The steps begin where those over the batch end, whose parameters
    `start` returns.
    """

    def __init__(self, problem: LearningProblem, start: Callable[[], Parameters], random: np.random.Generator) -> None:
        settings = problem.batch.settings
        method = problem.method
        M = problem.replayed_count
        share = max(REFINED_SHARE, min(1.0, REFINED_LEAST / max(1, M)))
        visited, _ = hold_out(M, 1 - share, problem.random(Stream.REFINED))
        rows = np.append(visited, M + problem.split[0])
        coordinates = Inputs(problem.all_features[rows], None, settings.dtype, sparse=True)
        labels = problem.all_labels[rows]
        batch_size = settings.points_in_batch(len(rows))
        epochs = settings.epoch_count(problem.N)
        super().__init__(
            method,
            method.bound(coordinates),
            method.whitened(start()),
            method.batches(coordinates, labels),
            labels,
            random,
            Schedule(
                batch_size,
                -(-epochs // REFINEMENT_SHARE),
                REFINEMENT_RATE * default_rate(settings),
                earlier_steps=epochs * -(-len(rows) // batch_size),
            ),
        )
        self._start: Callable[[], Parameters] | None = start

    def begin(self, epoch: int) -> None:
        """Take the parameters, before the first epoch."""
        if self._start:
            for name, value in self._method.whitened(self._start()).items():
                self._parameters[name][...] = value
            self._start = None
