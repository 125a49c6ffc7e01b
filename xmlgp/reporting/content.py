"""Everything that a report says, as plain values, computed from `Evidence`, names and explanations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr, widened
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.intervals import FEW_POINTS, Interval, intervals
from xmlgp.metrics.probabilities import top_calibration_statistics
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.predictor import Neighbours
from xmlgp.prediction.scores_file import Scores
from xmlgp.reporting.answers import Measure, answer_how_good, answer_trust, answer_what_is_wrong, calibration_in_words
from xmlgp.reporting.documents import describe_document, describe_neighbours
from xmlgp.reporting.evidence import Evidence, SampledPoint
from xmlgp.reporting.label_tables import LabelCounts, best_and_worst, by_frequency, most_frequent_confusions
from xmlgp.reporting.plain_text import plain

__all__ = ["About", "make_content"]

#: Unknown labels that are named.
UNKNOWN = 100

_MEAN = "Harmonic mean of precision and recall"
_TOGETHER = "over all labels given to all documents together"

#: Measures of assigned labels: their names, those of `assignment_statistics`, and what they mean.
ASSIGNMENT = [
    ("Precision, micro", "precision_micro", f"Share of given labels that are true, {_TOGETHER}."),
    ("Recall, micro", "recall_micro", f"Share of true labels that are given, {_TOGETHER}."),
    ("F1, micro", "F1_micro", f"{_MEAN}, {_TOGETHER}: frequent labels weigh most."),
    (
        "F1, macro",
        "F1_macro",
        f"{_MEAN}, over each label, then the mean over labels: rare labels weigh as much as frequent ones.",
    ),
    (
        "F1, per document",
        "F1_point",
        f"{_MEAN}, over each document, then the mean over documents: every document weighs the same.",
    ),
]

#: What ECE@k means.
CALIBRATION = (
    "Mean difference between the probability of a suggested label and how often such labels are true, over the first "
    "{} of each document; 0 % is best."
)


@dataclass(frozen=True)
class About:
    """What a report says besides what the evidence shows; all but the title may be missing.

    `facts` are pairs of a term and its value. `counts`, K, are the numbers of training points of the labels; without
    them, labels are grouped by their test points. `explain` returns the contributions to the utilities of labels, given
    the features and the scores of points, and `neighbours` the neighbours of points, given their features. `rule` ends
    the sentence "A label counts as given if it is among". `unknown` has the test points of the labels that the model
    does not know; they follow its own in names, counts and propensities, with counts of 0. `trained_on` says whether
    the test points are those that the model was trained on.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    counts: NDArray[np.integer] | None = None
    propensities: NDArray[np.floating] | None = None
    names: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    block_names: Sequence[str] | None = None
    explain: Callable[[Features, Scores], Contributions] | None = None
    neighbours: Callable[[Features], Neighbours] | None = None
    rule: str | None = None
    unknown: Mapping[str, int] = field(default_factory=dict)
    trained_on: bool = False

    def check(self, labels: csr_array) -> None:
        """Raise SettingsError if a report of these true labels, N×K, is not possible."""
        K = labels.shape[1]
        for kind in ("names", "counts", "propensities"):
            values = getattr(self, kind)
            if values is not None and len(values) != K:
                raise SettingsError(f"there are {kind} of {len(values)} labels, but scores of {K}")
        if not labels.nnz:
            raise SettingsError("no document of the test data has a true label, so there is nothing to report")

    def label_name(self, label: int) -> str:
        """Return the name of a label, or its number if it has none."""
        return _name(self.names, label) or f"label {label}"

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature, or its number if it has none."""
        return _name(self.feature_names, feature) or f"feature {feature}"


def _name(names: Sequence[str] | None, number: int) -> str:
    return "" if names is None else plain(names[number]).strip()


def make_content(evidence: Evidence, about: About) -> SimpleNamespace:
    """Return everything that a report shows as attributes."""
    labels = evidence.labels
    about.check(labels)
    assigned = as_csr(None, evidence.assigned.labels, evidence.assigned.indptr, labels.shape[1])
    return SimpleNamespace(
        **_measures(evidence, about, labels, assigned),
        **_labels(evidence.label_count, about, labels, assigned),
        **_documents(evidence.sample, about),
    )


def _measures(evidence: Evidence, about: About, labels: csr_array, assigned: csr_array) -> dict[str, object]:
    """Return what a report says of all labels together."""
    top = widened(evidence.top.matrix, labels.shape[1])
    ks = [k for k in (1, 3, 5) if k <= evidence.label_count]
    error = f"ECE@{ks[-1]}"
    statistics = ranking_statistics(top, labels, ks, about.propensities)
    in_percent = set(statistics)
    statistics |= assignment_statistics(assigned, labels) | top_calibration_statistics(top, labels, ks[-1:])
    ends = intervals(statistics)

    def measure(name: str, key: str, meaning: str) -> Measure:
        factor = 0.01 if key in in_percent else 1.0
        low, high = ends[key]
        return Measure(name, factor * statistics[key].value, Interval(factor * low, min(factor * high, 1.0)), meaning)

    ranking = [measure(name, name, meaning) for name, meaning in _ranking_measures(ks, in_percent, labels)]
    calibration = measure(error, error, CALIBRATION.format(ks[-1]))
    ranks = evidence.reliability_by_rank.filled
    labelled = int(np.count_nonzero(np.diff(labels.indptr)))
    five = next((row for row in ranking if row.name == "P@5"), None)
    precision, recall = (statistics[f"{name}_micro"].value for name in ("precision", "recall"))
    facts = [*_facts(labels, evidence.label_count), *about.facts]
    return {
        "title": plain(about.title),
        "subtitle": _subtitle(labels, evidence.label_count),
        "trained_on": about.trained_on,
        "how_good": answer_how_good(ranking[0], five, labels.nnz / labelled),
        "trust": answer_trust(calibration, ranks[: ks[-1]], evidence.reliability.filled),
        "what_is_wrong": answer_what_is_wrong(precision, recall),
        "facts": [(plain(term), plain(value)) for term, value in facts],
        "rule": plain(about.rule or _default_rule(evidence)),
        "ranking": ranking,
        "assignment": [measure(*row) for row in ASSIGNMENT],
        "probabilities": [calibration],
        "calibration": calibration_in_words(calibration),
        "labelled": labelled,
        "few_points": FEW_POINTS,
        "reliability": evidence.reliability,
        "ranks": ranks,
        "listed": evidence.longest,
        "label_count": evidence.label_count,
    }


def _labels(label_count: int, about: About, labels: csr_array, assigned: csr_array) -> dict[str, object]:
    """Return what a report says of single labels."""
    counts = LabelCounts.of(assigned, labels)
    ranking = best_and_worst(counts, about.counts, label_count, about.label_name)
    return {
        "frequency_of": "test" if about.counts is None else "training",
        "frequencies": by_frequency(counts, counts.true if about.counts is None else about.counts),
        "unknown": [(plain(name), count) for name, count in list(about.unknown.items())[:UNKNOWN]],
        "unknown_count": len(about.unknown),
        "unknown_share": sum(about.unknown.values()) / labels.nnz,
        **ranking._asdict(),
        "confusions": [
            (about.label_name(missed), about.label_name(wrong), count, misses)
            for missed, wrong, count, misses in most_frequent_confusions(assigned, labels).T.tolist()
        ],
    }


def _documents(sample: list[SampledPoint], about: About) -> dict[str, object]:
    """Return what a report says of single documents."""
    documents = [describe_document(point, about) for point in sample]
    neighbours = None
    if about.neighbours:
        features = [point.features for point in sample if point.features is not None]
        neighbours = about.neighbours(Features.stack(features))
        for document, nearest in zip(documents, describe_neighbours(neighbours, about.label_name), strict=True):
            document.neighbours = nearest
    return {
        "documents": documents,
        "explained": about.explain is not None,
        "shared": about.explain is not None and bool(about.block_names),
        "with_words": any(point.features is not None and point.features.D for point in sample),
        "kept": neighbours and neighbours.labels.shape[0],
    }


def _default_rule(evidence: Evidence) -> str:
    labels = f"its {evidence.longest} best" if evidence.longest < evidence.label_count else "all"
    return f"those with the highest expected F1 of the document, by the probabilities of {labels} labels"


def _facts(labels: csr_array, K: int) -> list[tuple[str, str]]:
    N = labels.shape[0]
    labelled = int(np.count_nonzero(np.diff(labels.indptr)))
    unlabelled = [("Without a true label, left out of means over documents", f"{N - labelled:,}")]
    return [
        ("Test documents", f"{N:,}"),
        *(unlabelled if labelled < N else []),
        ("Labels", f"{K:,}"),
        ("True labels of a test document, on average", f"{labels.nnz / labelled:.1f}"),
    ]


def _subtitle(labels: csr_array, K: int) -> str:
    """Return what was tested, in a sentence."""
    N = labels.shape[0]
    each = labels.nnz / np.count_nonzero(np.diff(labels.indptr))
    return f"Tested on {N:,} document{'' if N == 1 else 's'}; each has {each:.1f} of {K:,} labels on average."


def _ranking_measures(ks: list[int], computed: Collection[str], labels: csr_array) -> list[tuple[str, str]]:
    """Return the names and the meanings of measures of rankings, of those that are computed."""
    measures = []
    counts = np.diff(labels.indptr)
    counts = counts[counts > 0]
    for k in ks:
        most = np.minimum(counts, k).mean() / k
        text = f"Share of the first {k} suggested labels that are true"
        if k == 1:
            text = "Share of documents whose first suggested label is true"
        text += "." if most == 1 else f"; at most {100 * most:.1f} % here, because documents have few true labels."
        measures.append((f"P@{k}", text))
    last = ks[-1]
    text = f"True labels among the first {last}, where earlier places count more; 100 % is the best possible order."
    measures.append((f"nDCG@{last}", text))
    for k in ks if f"PSP@{last}" in computed else ():
        text = f"P@{k} where rare labels count more than frequent ones; 100 % is the best possible choice."
        measures.append((f"PSP@{k}", text))
    return measures
