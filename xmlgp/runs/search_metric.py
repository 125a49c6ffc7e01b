"""The metric by which a search compares settings."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset
from xmlgp.errors import UsageError
from xmlgp.metrics.intervals import Interval
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.probabilities import calibration_statistics
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import Statistic, ratio
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores

__all__ = ["Metric", "shown"]

#: The measures of the k best labels, of rankings and of `macro_statistics`.
RANKINGS = ("P", "nDCG", "PSP", "PSnDCG")
MACRO = ("recall", "coverage", "macro-precision", "macro-recall", "macro-F1")

#: The measure of the probabilities of all labels.
LOG_LOSS = "log-loss"

#: Best labels that are kept of each point, at least.
KEPT = 5


class Metric(NamedTuple):
    """A measure of the k best labels, such as nDCG@5, in percent; or, if k is None, the log loss of all, in nats."""

    name: str
    k: int | None

    @classmethod
    def of(cls, text: str | None) -> Metric | None:
        """Return the metric that a user names, or None for no name; UsageError for an unknown one."""
        if text is None:
            return None
        if text.lower() == LOG_LOSS:
            return cls(LOG_LOSS, None)
        names = {name.lower(): name for name in (*RANKINGS, *MACRO)}
        match = re.fullmatch(r"([a-z0-9-]+)@([1-9]\d{0,8})", text.lower())
        if not match or match[1] not in names:
            known = ", ".join(f"{name}@K" for name in names.values())
            raise UsageError(f"the metric {text!r} is unknown; there are {known} and {LOG_LOSS}")
        return cls(f"{names[match[1]]}@{match[2]}", int(match[2]))

    @classmethod
    def for_labels(cls, metric: Metric | None, K: int) -> Metric:
        """Return the metric, or the default one, for data of K labels; UsageError if these have none such."""
        if K > 1:
            return metric or cls("nDCG@5", 5)
        if metric and metric.k:
            raise UsageError(f"a single label has no ranking; the metric for it is {LOG_LOSS}")
        return cls(LOG_LOSS, None)

    @property
    def sign(self) -> int:
        """1 if higher values are better, or −1."""
        return -1 if self.k is None else 1

    @property
    def needs_propensities(self) -> bool:
        """Whether it weights labels by their propensities."""
        return self.name.startswith("PS")

    @property
    def depth(self) -> int | None:
        """The number of best labels that are kept of each point, of which all metrics up to it are computed."""
        return None if self.k is None else max(self.k, KEPT)

    def kept(self, predictor: Predictor, points: Dataset) -> NDArray[np.float64]:
        """Return what `statistic` needs of predictions: the best labels, then their scores, n×2d, or losses, n×1."""
        blocks = []
        first = 0
        for scores in predictor.top(points.features, self.depth, "probability" if self.depth is None else None):
            if self.depth is None:
                labels = points.labels[first : first + scores.N]
                losses, counts = calibration_statistics(scores.matrix, labels)["log_loss"].columns.T
                blocks.append((losses / counts)[:, None])
            else:
                blocks.append(np.hstack([part.reshape(scores.N, -1) for part in (scores.labels, scores.scores)]))
            first += scores.N
        return np.concatenate(blocks)

    def statistic(
        self, kept: NDArray[np.float64], labels: csr_array, propensities: NDArray[np.floating] | None
    ) -> Statistic:
        """Return the metric of points, given what is kept of them, the true labels, n×K, and propensities, K."""
        if self.k is None:
            return ratio(kept[:, 0], np.ones(len(kept)), 1.0, math.inf)
        best, scores = np.hsplit(kept, 2)
        ranking = Scores.from_top(best.astype(np.int32), scores, labels.shape[1])
        if self.name.partition("@")[0] in MACRO:
            return macro_statistics(ranking.matrix, labels, (self.k,))[self.name]
        return ranking_statistics(ranking.matrix, labels, (self.k,), propensities)[self.name]


def shown(metric: str, value: float, interval: Interval | None = None, sign: str = "") -> str:
    """Return a value of a metric, or with the sign "+" a difference, in words, perhaps with its interval."""
    layout = f"{sign}.{5 if metric == LOG_LOSS else 2}f"
    if interval is None:
        return format(value, layout)
    return f"{value:{layout}} [{interval.low:{layout}}, {interval.high:{layout}}]"
