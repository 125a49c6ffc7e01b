"""The page about a model: its measures, its calibration, frequent and rare labels, and what is wrong most often."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from xmlgp.api.evaluate import Evaluation
from xmlgp.api.points import Block
from xmlgp.data.dataset import widen
from xmlgp.metrics.probabilities import frequency_groups, reliability
from xmlgp.metrics.ranking import are_true
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import XmlgpError
from xmlgp.runtime.progress import Progress

__all__ = ["KS", "SHOWN", "Answers", "check_available", "render"]

#: Values of k of the measures, and the labels of a point that a user sees.
KS = (1, 3, 5)
SHOWN = 5

#: The measures on the page, each @k.
MEASURES = ("P", "nDCG", "PSP", "recall", "macro-F1")

#: Rows of the tables of labels, and points with errors.
ROWS = 15
POINTS = 15

#: Characters of a text that are shown.
LONGEST_TEXT = 600


def check_available() -> None:
    """Raise XmlgpError if Jinja2 is not installed, so that a long computation need not end with that."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise XmlgpError("reports need Jinja2: pip install 'xmlgp[report]'") from None


@dataclass(frozen=True)
class Answers:
    """The best labels of N points with their probabilities, and the true labels, N×K.

    `worst` are the points whose first label is wrong with the highest probability: their numbers, identifiers and
    texts, or None.
    """

    scores: Scores
    labels: csr_array
    worst: list[tuple[int, Any, str | None]]

    @classmethod
    def of(cls, predictor: Predictor, blocks: Iterable[Block], progress: Progress) -> Answers:
        """Return the answers of a predictor to blocks of points that have labels."""
        scores: list[Scores] = []
        labels: list[csr_array] = []
        worst: list[tuple[float, int, Any, str | None]] = []
        N = 0
        with progress("report"):
            for block in blocks:
                points = block.points
                top = Scores.stack(list(predictor.top(points.features, SHOWN, "probability")), predictor.label_count)
                top.check_finite(N)
                first = top.indptr[:-1]
                wrong = ~are_true(top.matrix, csr_array(points.labels[:, : top.K]))[first]
                for row in np.flatnonzero(wrong & (np.diff(points.labels.indptr) > 0)).tolist():
                    text = block.texts[row] if block.texts else None
                    worst.append((float(top.scores[first[row]]), -(N + row), block.ids[row], text))
                worst = heapq.nlargest(POINTS, worst)
                scores.append(top)
                labels.append(points.labels)
                N += points.N
        # Later blocks may have labels that no earlier one has.
        K = max([predictor.label_count, *(part.shape[1] for part in labels)])
        true = vstack([csr_array((0, K), dtype=bool), *(widen(part, K) for part in labels)], "csr")
        return cls(Scores.stack(scores, K), csr_array(true), [(-number, id, text) for _, number, id, text in worst])


def render(
    answers: Answers,
    title: str,
    facts: Mapping[str, object],
    names: Sequence[str] | None,
    counts: NDArray[Any] | None,
    evaluation: Evaluation,
) -> str:
    """Return the page, given the evaluation of the answers with `KS`, the macro measures and calibration.

    `names` are those of the K labels, or None for their numbers, and `counts` their training points, or None.
    """
    import jinja2

    measures = {
        measure: [(evaluation.measures[name], *evaluation.intervals[name]) for name in (f"{measure}@{k}" for k in KS)]
        for measure in MEASURES
        if f"{measure}@{KS[0]}" in evaluation.measures
    }
    labels = names or list(map(str, range(answers.labels.shape[1])))
    errors = _Errors(answers)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True)
    template = files("xmlgp.reporting").joinpath("template.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        facts=facts.items(),
        ks=KS,
        shown=SHOWN,
        measures=measures.items(),
        error=evaluation.measures[f"ECE@{SHOWN}"],
        reliability=reliability(answers.scores.matrix, answers.labels, 10),
        frequencies=[] if counts is None else errors.by_frequency(counts),
        missed=errors.missed_labels(labels, counts),
        confused=errors.confused(labels),
        points=[_point(answers, labels, *point) for point in answers.worst],
    )


class _Errors:
    """Counts what is right and what is wrong for each label, among the first labels of points."""

    def __init__(self, answers: Answers) -> None:
        self._scores = scores = answers.scores
        self._labels = answers.labels
        self._right = are_true(scores.matrix, answers.labels)
        self._true, self._listed, self._found = (
            np.bincount(labels, minlength=scores.K)
            for labels in (answers.labels.indices, scores.labels, scores.labels[self._right])
        )

    def by_frequency(self, counts: NDArray[Any]) -> list[dict[str, Any]]:
        """Return recall and precision of the labels with similar numbers of training points."""
        names, groups = frequency_groups(counts)
        sums = [
            np.bincount(groups, weights, len(names)).astype(int).tolist()
            for weights in (None, self._true, self._listed, self._found)
        ]
        return [
            {
                "name": name,
                "labels": labels,
                "true": true,
                "recall": found / max(true, 1),
                "precision": found / max(listed, 1),
            }
            for name, labels, true, listed, found in zip(names, *sums, strict=True)
            if true or listed
        ]

    def missed_labels(self, names: Sequence[str], counts: NDArray[Any] | None) -> list[dict[str, Any]]:
        """Return the labels that are missed most often."""
        missed = self._true - self._found
        return [
            {
                "name": names[label],
                "missed": int(missed[label]),
                "true": int(self._true[label]),
                "training": 0 if counts is None else int(counts[label]),
            }
            for label in np.argsort(-missed, kind="stable")[:ROWS].tolist()
            if missed[label]
        ]

    def confused(self, names: Sequence[str]) -> list[tuple[str, str, int]]:
        """Return the first labels that are wrong, each with a true label of the same point: the most frequent pairs."""
        first = self._scores.indptr[:-1]
        pairs: Counter[tuple[int, int]] = Counter()
        for row in np.flatnonzero(~self._right[first]).tolist():
            true = self._labels.indices[self._labels.indptr[row] : self._labels.indptr[row + 1]].tolist()
            pairs.update((int(self._scores.labels[first[row]]), label) for label in true)
        return [(names[wrong], names[label], count) for (wrong, label), count in pairs.most_common(ROWS)]


def _point(answers: Answers, names: Sequence[str], number: int, id: Any, text: str | None) -> dict[str, Any]:
    """Return a point with its text, its first labels, and the true ones that are missing there."""
    listed = answers.scores.rows(number, number + 1)
    indptr = answers.labels.indptr
    true = answers.labels.indices[indptr[number] : indptr[number + 1]].tolist()
    return {
        "id": id,
        "text": text and (text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"),
        "labels": [
            {"name": names[label], "probability": score, "right": label in true}
            for label, score in zip(listed.labels.tolist(), listed.scores.tolist(), strict=True)
        ],
        "missed": [names[label] for label in true if label not in listed.labels],
    }
