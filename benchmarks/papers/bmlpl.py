"""Cells of BMLPL: the number of topics chosen on held-out points, AUC beside the ranking measures, labels of topics."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from benchmarks.papers.cells import KS, Cell, CellData
from xmlgp.data.dataset import Features
from xmlgp.data.names import read_label_names
from xmlgp.metrics.auc import auc_statistics
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import values
from xmlgp.models.bmlpl.parameters import list_topics
from xmlgp.models.bmlpl.predictor import BMLPLPredictor
from xmlgp.models.bmlpl.record import BMLPL
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.bmlpl.train import run_inference
from xmlgp.models.model import Model
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.minibatches import hold_out

__all__ = ["BMLPLCell"]

#: Share of the training points that are held out to choose the number of topics.
HELD_OUT = 0.2

#: The measure that chooses the number of topics.
CHOOSE_BY = "AUC_instance"

#: The file beside the points that has the names of labels, if there is one; see `xmlgp.data.names`.
LABEL_NAMES = "labels.txt"


@dataclasses.dataclass(frozen=True)
class BMLPLCell(Cell[BMLPLSettings]):
    """A cell of the topic model."""

    #: Candidate numbers of topics as shares of the number of labels; held-out points choose one. Empty: the number in
    #: the settings.
    topic_shares: tuple[float, ...] = ()

    #: The labels of highest weight of each topic that the result has, as many as this.
    top_labels: int = 0

    model: ClassVar[Model] = BMLPL
    defaults: ClassVar[dict[str, object]] = {"topic_shares": [], "top_labels": 0}

    @classmethod
    def options(cls, spec: Mapping[str, Any], dataset: str, method: str, epochs_scale: float) -> dict[str, Any]:
        """Return the keyword arguments that only cells of this model take; see `Cell.options`."""
        return {"topic_shares": tuple(spec["topic_shares"]), "top_labels": spec["top_labels"]}

    @classmethod
    def scale(cls, settings: BMLPLSettings, N: int, epochs_scale: float) -> BMLPLSettings:
        """Return settings with the number of iterations made explicit and multiplied; see `Cell.scale`."""
        return dataclasses.replace(settings, iterations=max(1, math.ceil(settings.passes * epochs_scale)))

    @classmethod
    def columns(cls, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the numbers of topics, the measure of each candidate and the labels of topics; see `Cell.columns`."""
        columns = {name: results[0][name] for name in ("topics", "choice", "labels_of_topics") if name in results[0]}
        counts = {result["topics"] for result in results if "topics" in result}
        # Seeds choose on their own.
        return columns | {"topics": " or ".join(map(str, sorted(counts)))} if len(counts) > 1 else columns

    def facts(self) -> list[Any]:
        """Return everything that determines the result; see `Cell.facts`."""
        further = [self.topic_shares, {"top_labels": self.top_labels} if self.top_labels else {}]
        return super().facts() + [fact for fact in further if fact]

    def run(self, data: CellData) -> dict[str, Any]:
        """Choose the number of topics, train and measure; see `Cell.run`."""
        train, test, preprocessed, coordinates, propensities = data
        settings = self.settings

        def measure(
            parameters: Mapping[str, NDArray[Any]], features: Features = test.features, labels: csr_array = test.labels
        ) -> dict[str, float]:
            blocks = BMLPLPredictor(settings, preprocessed, parameters, train.D).top(features, None)
            scores = Scores.stack(list(blocks)).matrix
            measures = values(ranking_statistics(scores, labels, KS, propensities) | auc_statistics(scores, labels))
            return measures | {"AUC_macro": _mean_area_of_labels(scores, labels)}

        choice = {}
        counts = [max(1, round(share * train.K)) for share in self.topic_shares]
        if len(counts) > 1:
            rows, rows_held_out = hold_out(train.N, HELD_OUT, random_stream(settings.seed, Stream.HELD_OUT))
            held_out = train.features[rows_held_out], train.labels[rows_held_out]
            for count in counts:
                candidate = dataclasses.replace(settings, topics=count)
                parameters, _ = run_inference(coordinates.select(rows), train.labels[rows], candidate)
                choice[count] = measure(parameters, *held_out)[CHOOSE_BY]
            counts = [max(choice, key=choice.get)]
        if counts:
            settings = dataclasses.replace(settings, topics=counts[0])

        curve, after_epoch = self.curve_of(measure, settings.passes)
        parameters, history = run_inference(coordinates, train.labels, settings, after_epoch=after_epoch)
        for point in curve:
            point["seconds"] = history[point["epoch"] - 1]["seconds"]
        result = {
            "measures": measure(parameters),
            "history": history,
            "curve": curve,
            "topics": len(parameters["shapes"]),
            "choice": choice,
        }
        return result | ({"labels_of_topics": self._labels_of_topics(parameters, train.K)} if self.top_labels else {})

    def _labels_of_topics(self, parameters: Mapping[str, NDArray[Any]], K: int) -> list[dict[str, Any]]:
        """Return the topics, highest share first, each with its labels, by their names if the data have them."""
        file = self.folder / LABEL_NAMES
        names = read_label_names(file, K) if file.exists() else list(map(str, range(K)))
        return [
            {
                "topic": topic.number,
                "share": topic.share,
                "labels": [names[label] for label in topic.labels],
                "weights": topic.weights,
            }
            for topic in list_topics(parameters, self.top_labels)
        ]


def _mean_area_of_labels(scores: csr_array, labels: csr_array) -> float:
    """Return the mean area under the ROC curve of the labels that some points have and others have not."""
    true = labels.toarray()
    mixed = true.any(axis=0) & ~true.all(axis=0)
    return float(roc_auc_score(true[:, mixed], scores.toarray()[:, mixed], average="macro"))
