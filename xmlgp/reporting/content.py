"""Everything that a report says, as plain values, computed from `Evidence`, names and explanations."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr, widened
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.probabilities import frequency_groups, top_calibration_errors
from xmlgp.metrics.ranking import are_true, evaluate_ranking, true_entries

__all__ = ["Tally", "make_content", "most_frequent_confusions"]

#: Test documents that a label must have to be among the best and the worst labels.
FEWEST = 5

#: Labels in each of the tables of the best and the worst.
BEST = 15

#: Unknown labels that are named.
UNKNOWN = 100

#: Pairs that are counted at a time. The pairs of one missed label are counted together even if they are more; they are
#: at most as many as the assigned labels.
PAIRS = 1 << 22

#: Words for a label and words against it, each at most.
WORDS = 5

#: Features that are shown of a document without text, those of the greatest values.
FEATURES = 40

#: Characters of a text that are shown.
CHARACTERS = 4000

_MEAN = "Harmonic mean of precision and recall"
_TOGETHER = "over all labels given to all documents together"

#: Measures of given labels: their names, those of `evaluate_assignment`, and what they mean.
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

#: Other control characters than a line break cannot be shown; NUL is not even allowed in HTML.
_CONTROL = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


class Tally(NamedTuple):
    """The pairs of a document and a label, or one of some labels: how many are true, given, and both.

    `size` is the number of labels, or that of training documents of the only label, None if it is not known.
    """

    name: str
    size: int | None
    true: int
    given: int
    right: int

    @property
    def precision(self):
        """The share of given labels that are true; None without given labels."""
        return self.right / self.given if self.given else None

    @property
    def recall(self):
        """The share of true labels that are given; None without true labels."""
        return self.right / self.true if self.true else None

    @property
    def F1(self):
        """Their harmonic mean."""
        return 2 * self.right / (self.true + self.given)


def make_content(
    evidence,
    *,
    title,
    facts=(),
    counts=None,
    propensities=None,
    names=None,
    feature_names=None,
    block_names=None,
    explain=None,
    neighbours=None,
    rule=None,
    unknown=None,
):
    """Return everything that a report shows as attributes, of `Evidence` and what else is known.

    `facts` are pairs of a term and its value. `counts`, K, are the numbers of training points of the labels; without
    them, labels are grouped by their test points. `explain` returns the `Contributions` to the utilities of labels,
    given the features and the `Scores` of points, and `neighbours` the `Neighbours` of points, given their features.
    `rule` ends the sentence "A label counts as given if it is among".
    `unknown` has the labels that the model does not know with their test points (mapping); they follow its own in
    names, counts and propensities, with counts of 0.
    """
    labels = evidence.labels
    top = evidence.top
    assigned = evidence.assigned
    unknown = unknown or {}
    K = labels.shape[1]
    for what, values in (("names", names), ("counts", counts), ("propensities", propensities)):
        if values is not None and len(values) != K:
            raise SettingsError(f"there are {what} of {len(values)} labels, but scores of {K}")
    if not labels.nnz:
        raise SettingsError("no document of the test data has a true label, so there is nothing to report")
    label_name = _namer(names, "label")
    feature_name = _namer(feature_names, "feature")
    assigned = as_csr(None, assigned.labels, assigned.indptr, K)
    right = assigned.indices[true_entries(assigned, labels)]
    by_label = [np.bincount(found, minlength=K) for found in (labels.indices, assigned.indices, right)]

    matrix = widened(top.matrix, K)
    ks = [k for k in (1, 3, 5) if k <= evidence.label_count]
    ranked = {name: value / 100 for name, value in evaluate_ranking(matrix, labels, ks, propensities).items()}
    error = top_calibration_errors(matrix, labels, ks[-1:])[f"ECE@{ks[-1]}"]
    assignment = evaluate_assignment(assigned, labels)
    best, worst, fewest, eligible = _best_and_worst(by_label, counts, evidence.label_count, label_name)
    known = counts is not None
    documents = [_document(point, label_name, feature_name, block_names, explain) for point in evidence.sample]
    if neighbours:
        found = neighbours(Features.stack([point.features for point in evidence.sample]))
        for document, near in zip(documents, _neighbours(found, label_name), strict=True):
            document.neighbours = near
    return SimpleNamespace(
        title=_plain(title),
        summary=_summary(ranked, error, labels),
        facts=[(_plain(term), _plain(value)) for term, value in [*_own_facts(labels, evidence.label_count), *facts]],
        rule=_plain(rule or _default_rule(evidence)),
        ranking=_ranking_measures(ranked, ks, np.diff(labels.indptr)),
        given=[(name, assignment[key], meaning) for name, key, meaning in ASSIGNMENT],
        probabilities=[(f"ECE@{ks[-1]}", error, CALIBRATION.format(ks[-1]))],
        frequency_of="training" if known else "test",
        frequencies=_by_frequency(by_label, counts if known else by_label[0]),
        bins=evidence.reliability.filled,
        ranks=evidence.reliability_by_rank.filled,
        listed=evidence.longest,
        label_count=evidence.label_count,
        unknown=[(_plain(name), count) for name, count in list(unknown.items())[:UNKNOWN]],
        unknown_count=len(unknown),
        unknown_share=sum(unknown.values()) / labels.nnz,
        fewest=fewest,
        eligible=eligible,
        best=best,
        worst=worst,
        confusions=[
            (label_name(missed), label_name(given), count, misses)
            for missed, given, count, misses in most_frequent_confusions(assigned, labels).T.tolist()
        ],
        documents=documents,
        explained=explain is not None,
        shared=explain is not None and bool(block_names),
        with_words=any(point.features is not None and point.features.D for point in evidence.sample),
        kept=found.labels.shape[0] if neighbours else None,
    )


def _default_rule(evidence):
    listed = f"its {evidence.longest} best" if evidence.longest < evidence.label_count else "all"
    return f"those with the highest expected F1 of the document, by the probabilities of {listed} labels"


def _plain(text):
    """Return text without characters that a page cannot contain."""
    return str(text).replace("\r\n", "\n").translate(_CONTROL).encode("utf-8", "replace").decode()


def _namer(names, kind):
    """Return a function from a number to a name, with the number where there is none."""

    def name(number):
        return (_plain(names[number]).strip() if names is not None else "") or f"{kind} {number}"

    return name


def _own_facts(labels, K):
    N = labels.shape[0]
    labelled = int(np.count_nonzero(np.diff(labels.indptr)))
    unlabelled = [("Without a true label, left out of means over documents", f"{N - labelled:,}")]
    return [
        ("Test documents", f"{N:,}"),
        *(unlabelled if labelled < N else []),
        ("Labels", f"{K:,}"),
        ("True labels of a test document, on average", f"{labels.nnz / labelled:.1f}"),
    ]


def _summary(ranked, error, labels):
    """Return the sentences at the top."""
    sentences = [f"For {100 * ranked['P@1']:.0f} % of the documents, the first label that the model suggests is right."]
    if "P@5" in ranked:
        each = labels.nnz / np.count_nonzero(np.diff(labels.indptr))
        sentences.append(
            f"Of its first five suggestions, {5 * ranked['P@5']:.1f} are right on average, where a document has "
            f"{each:.1f} true labels."
        )
    sentences.append(
        f"On average, its probabilities differ by {100 * error:.1f} percentage points from how often they come true."
    )
    return sentences


def _ranking_measures(ranked, ks, counts):
    """Return measures of rankings: their names, values and meaning. `counts` has the true labels of each document."""
    found = []
    counts = counts[counts > 0]
    for k in ks:
        most = np.minimum(counts, k).mean() / k if len(counts) else 1.0
        text = f"Share of the first {k} suggested labels that are true"
        if k == 1:
            text = "Share of documents whose first suggested label is true"
        text += "." if most == 1 else f"; at most {100 * most:.1f} % here, because documents have few true labels."
        found.append((f"P@{k}", ranked[f"P@{k}"], text))
    last = ks[-1]
    text = f"True labels among the first {last}, where earlier places count more; 100 % is the best possible order."
    found.append((f"nDCG@{last}", ranked[f"nDCG@{last}"], text))
    for k in ks if f"PSP@{last}" in ranked else ():
        text = f"P@{k} where rare labels count more than frequent ones; 100 % is the best possible choice."
        found.append((f"PSP@{k}", ranked[f"PSP@{k}"], text))
    return found


def _by_frequency(by_label, counts):
    """Return a `Tally` of each group of labels, given how often each label is true, given and both."""
    names, group_of = frequency_groups(counts)
    columns = (np.bincount(group_of, weights, len(names)) for weights in (None, *by_label))
    groups = map(Tally, names, *(column.astype(int).tolist() for column in columns))
    return [group for group in groups if group.true or group.given]


def _best_and_worst(by_label, counts, known, label_name):
    """Return rows of the best and the worst labels, the test points that a label needs, and the labels with so many.

    Only the first labels are `known`. Without training documents, one cannot be given either; a long list of such
    labels would say little.
    """
    true, given, right = by_label
    known = np.where((np.arange(len(true)) < known) & (counts is None or counts > 0), true, 0)
    fewest = FEWEST if np.any(known >= FEWEST) else 1
    found = np.flatnonzero(known >= fewest)
    F1 = 2 * right[found] / (given[found] + true[found])
    # Of equally good labels, those of more documents say more.
    order = np.lexsort((found, -true[found], -F1))
    best, rest = np.split(order, [min(BEST, (len(found) + 1) // 2)])
    worst = rest[np.lexsort((found[rest], -true[found[rest]], F1[rest]))][:BEST]

    def row(label):
        values = [None if column is None else int(column[label]) for column in (counts, *by_label)]
        return Tally(label_name(label), *values)

    best, worst = ([row(label) for label in found[part].tolist()] for part in (best, worst))
    return best, worst, fewest, len(found)


def most_frequent_confusions(assigned, labels, most=20):
    """Count pairs of a missed and a wrongly assigned label of the same point, given as csr_arrays of bool, N×K.

    Return the `most` most frequent ones, an ndarray of int, 4×n: the missed label, the wrong one, the points that lack
    the first and got the second, and all points that lack the first. Of equally frequent pairs those of the lowest
    labels come first. Memory does not depend on the number of labels.
    """
    missed = csr_array(_others(labels, assigned).T)
    wrong = _others(assigned, labels)
    pairs_until = np.concatenate([[0], np.cumsum(missed @ np.diff(wrong.indptr))])
    best = np.empty((3, 0), np.int64)
    first = 0
    K = labels.shape[1]
    while first < K:
        # As many labels as have at most so many pairs together, but at least one.
        last = max(first + 1, int(np.searchsorted(pairs_until, pairs_until[first] + PAIRS, side="right")) - 1)
        found = (missed[first:last] @ wrong).tocoo()
        best = np.concatenate([best, [found.coords[0] + first, found.coords[1], found.data]], axis=1)
        best = best[:, np.lexsort((best[1], best[0], -best[2]))[:most]]
        first = last
    return np.concatenate([best, [np.diff(missed.indptr)[best[0]]]])


def _others(entries, excluded):
    """Return a one for each entry of a csr_array that another one does not have, a csr_array of int."""
    kept = ~are_true(entries, excluded)
    points = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    return csr_array((np.ones(np.count_nonzero(kept), np.int64), (points[kept], entries.indices[kept])), entries.shape)


def _document(point, label_name, feature_name, block_names, explain):
    """Return a document of the sample: its text or features, its true labels, those suggested and those missed."""
    listed = list(zip(point.listed.labels.tolist(), point.listed.scores.tolist(), strict=True))
    row = point.features and point.features.sparse
    shown = listed[: len(point.shown.labels)]
    contributions = explain(point.features, point.shown) if explain else None
    suggestions = []
    blocks = explain is not None and contributions.dense is not None
    for rank, (label, probability) in enumerate(shown):
        sides = contributions.strongest(rank, WORDS) if explain else ([], [])
        words = [[(feature_name(feature), value) for feature, value in side] for side in sides]
        suggestions.append(
            SimpleNamespace(
                name=label_name(label),
                probability=probability,
                true=label in point.labels,
                given=rank < point.assigned,
                words_for=words[0],
                words_against=words[1],
                shares=list(contributions.shares(rank, block_names).items()) if blocks else [],
            )
        )
    # True labels further down the list, with their place and probability, and those that are not listed.
    lower = list(enumerate(listed, 1))[len(shown) :]
    missed = [(label_name(label), place, p) for place, (label, p) in lower if label in point.labels]
    missed += [(label_name(label), None, None) for label in point.labels if label not in dict(listed)]
    features = []
    if point.text is None and row is not None:
        order = np.lexsort((row.indices, -np.abs(row.data)))[:FEATURES]
        features = [(feature_name(int(row.indices[i])), float(row.data[i])) for i in order]
    return SimpleNamespace(
        number=point.number + 1,
        id=None if point.id is None else _plain(point.id),
        right=point.right,
        text=None if point.text is None else _plain(point.text[:CHARACTERS]),
        shortened=point.text is not None and len(point.text) > CHARACTERS,
        features=features,
        n_features=row.nnz if features else 0,
        # Whether the values of features say anything.
        valued=any(value != 1 for _, value in features),
        true=[label_name(label) for label in point.labels],
        suggestions=suggestions,
        missed=missed,
        neighbours=[],
    )


def _neighbours(found, label_name):
    """Yield the `Neighbours` of each document: their numbers, if these say anything, similarities and true labels."""
    for places, similarities in zip(found.points.tolist(), found.similarity.tolist(), strict=True):
        yield [
            SimpleNamespace(
                number=place + 1 if found.complete else None,
                similarity=similarity,
                labels=[label_name(label) for label in found.labels[[place]].indices.tolist()],
            )
            for place, similarity in zip(places, similarities, strict=True)
        ]
