"""The content of a report, by hand where the data are small enough."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmlgp
from tests.report.problems import explain, labels_of, random_problem, ranked
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.metrics.probabilities import top_calibration_errors
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.reporting import label_tables as module
from xmlgp.reporting.content import About, make_content
from xmlgp.reporting.evidence import Evidence
from xmlgp.reporting.label_tables import Tally, most_frequent_confusions

NAMES = ["red", "green", "blue", ""]

# One label is given to each of four points: 0 rightly, 0 wrongly in place of 1, 1 rightly, 2 wrongly in place of 0.
PROBABILITIES = [[0.9, 0.3, 0.2, 0.0], [0.8, 0.4, 0.1, 0.0], [0.1, 0.7, 0.2, 0.0], [0.2, 0.1, 0.6, 0.0]]
TRUE = [{0}, {1}, {1}, {0}]


def small(**options):
    evidence = Evidence(4, AssignmentRule(0.5))
    about = {name: options.pop(name) for name in ("features", "texts", "ids") if name in options}
    evidence.add(ranked(PROBABILITIES), labels_of(TRUE, 4), **about)
    return make_content(evidence, About(title="small", **options))


def test_best_and_worst_labels():
    content = small(names=NAMES, counts=np.array([7, 1, 0, 0]))
    assert (content.fewest, content.eligible) == (1, 2)
    # Label 1 is true twice and given once, rightly; label 0 is true twice and given twice, once rightly.
    assert content.best == [Tally("green", 1, true=2, assigned=1, right=1)]
    assert content.worst == [Tally("red", 7, true=2, assigned=2, right=1)]
    # Labels without training points are not among the worst.
    content = small(names=NAMES, counts=np.array([0, 1, 0, 0]))
    assert (content.eligible, [row.name for row in content.best], content.worst) == (1, ["green"], [])
    content = small(names=NAMES, counts=np.zeros(4, int))
    assert (content.eligible, content.best, content.worst) == (0, [], [])


def test_confusions_and_labels_by_frequency():
    content = small(names=NAMES, counts=np.array([7, 1, 0, 0]))
    assert content.confusions == [("red", "blue", 1, 1), ("green", "red", 1, 1)]
    assert content.frequency_of == "training"
    assert content.frequencies == [
        Tally("0", 2, true=0, assigned=1, right=0),
        Tally("1", 1, true=2, assigned=1, right=1),
        Tally("4-7", 1, true=2, assigned=2, right=1),
    ]
    shares = [(group.precision, group.recall, group.F1) for group in content.frequencies]
    assert shares == [(0, None, 0), (1, 0.5, 2 / 3), (0.5, 0.5, 0.5)]
    # Without training points labels are grouped by their test points.
    content = small()
    assert content.frequency_of == "test"
    assert [(group.name, group.size) for group in content.frequencies] == [("0", 2), ("2-3", 2)]
    assert content.best[0].size is None


def test_measures_are_those_of_the_other_commands():
    p, labels = random_problem(80, 12)
    weights = propensities(random_problem(200, 12, seed=1)[1])
    evidence, scores = Evidence(12, AssignmentRule(0.3, 4)), ranked(p, 8)
    evidence.add(scores, labels)
    content = make_content(evidence, About(title="t", propensities=weights))
    expected = evaluate_ranking(scores.matrix, labels, (1, 3, 5), weights)
    names = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
    assert [row[:2] for row in content.ranking] == [(name, pytest.approx(expected[name] / 100)) for name in names]
    together = xmlgp.evaluate(scores, labels, ks=(1, 3, 5)).intervals
    for name, _, interval, _ in content.ranking[:4]:
        assert interval == pytest.approx([end / 100 for end in together[name]])
    expected = evaluate_assignment(evidence.assigned.matrix, labels)
    keys = ("precision_micro", "recall_micro", "F1_micro", "F1_macro", "F1_point")
    assert [row[1] for row in content.assignment] == [expected[key] for key in keys]
    (row,) = content.probabilities
    assert row[:2] == ("ECE@5", pytest.approx(top_calibration_errors(scores.matrix, labels, (5,))["ECE@5"]))
    assert (content.reliability, content.ranks) == (evidence.reliability, evidence.reliability_by_rank.filled)
    assert all(row[3].endswith(".") for row in (*content.ranking, *content.assignment, *content.probabilities))


def test_without_propensities_and_with_three_labels_there_are_fewer_measures():
    evidence = Evidence(3)
    evidence.add(ranked([[0.9, 0.2, 0.1]]), labels_of([{0}], 3))
    content = make_content(evidence, About(title="t"))
    assert [row[0] for row in (*content.ranking, *content.probabilities)] == ["P@1", "P@3", "nDCG@3", "ECE@3"]
    # A single document says nothing.
    assert content.how_good.short == "100 %"
    assert "(95 % interval: 0 to 100 %)" in content.how_good.sentences[0]
    assert content.trust.short == "Unclear"
    assert [tuple(row[2]) for row in content.ranking] == [(0, 1)] * 3


def test_documents_with_text():
    content = small(names=NAMES, texts=["one\r\n1", "two\0", "x" * 5000, "four"], ids=["a", "b", "c", None])
    one, two, three, four = content.documents
    assert (one.number, one.id, one.right, one.text, one.true) == (1, "a", True, "one\n1", ["red"])
    assert [(label.name, label.true, label.assigned) for label in one.suggestions] == [
        ("red", True, True), ("green", False, False), ("blue", False, False), ("label 3", False, False)
    ]  # fmt: skip
    assert (two.right, two.text, two.shortened) == (False, "two�", False)
    assert (len(three.text), three.shortened) == (4000, True)
    assert four.id is None


def test_true_labels_that_are_not_shown():
    p = np.linspace(0.9, 0.1, 9)[None]
    evidence = Evidence(9, AssignmentRule(None, 2))
    evidence.add(ranked(p, 7), labels_of([{0, 6, 8}], 9))
    (document,) = make_content(evidence, About(title="t")).documents
    assert document.true == ["label 0", "label 6", "label 8"]
    assert document.missed == [("label 6", 7, pytest.approx(0.3)), ("label 8", None, None)]


def test_documents_without_text_have_features():
    features = Features(csr_array(np.array([[0, 2.0, 0.5], [1, 1, 1], [0, 0, 0], [-3, 0, 1]])))
    content = small(features=features, feature_names=["tea", "", "rum"])
    assert content.documents[0].features == [("feature 1", 2.0), ("rum", 0.5)]
    assert [document.valued for document in content.documents] == [True, False, False, True]
    assert content.documents[2].features == []
    assert content.documents[3].features[0] == ("tea", -3.0)


def test_words_for_and_against_each_label():
    evidence = Evidence(4, AssignmentRule(0.5))
    evidence.add(ranked(PROBABILITIES), labels_of(TRUE, 4), Features(csr_array(np.ones((4, 14)))))
    content = make_content(evidence, About(title="t", explain=explain, feature_names=[f"w{i}" for i in range(14)]))
    assert content.explained
    for document, point in zip(content.documents, evidence.sample, strict=True):
        contributions = explain(point.features, point.shown).values.reshape(4, 14)
        for label, values in zip(document.suggestions, contributions, strict=True):
            order = np.argsort(-values)
            assert label.words_for == [(f"w{i}", values[i]) for i in order[:5]]
            assert label.words_against == [(f"w{i}", values[i]) for i in order[::-1][:5]]


def test_many_labels_give_fifteen_best_and_fifteen_worst():
    p, labels = random_problem(300, 60)
    evidence = Evidence(60)
    evidence.add(ranked(p), labels)
    content = make_content(evidence, About(title="t"))
    assert (content.fewest, len(content.best), len(content.worst), len(content.documents)) == (5, 15, 15, 20)
    assert content.best[-1].F1 >= content.worst[-1].F1
    assert [row.F1 for row in content.best] == sorted((row.F1 for row in content.best), reverse=True)
    assert [row.F1 for row in content.worst] == sorted(row.F1 for row in content.worst)
    assert len(content.confusions) == 20


@pytest.mark.parametrize("name", ["names", "counts", "propensities"])
def test_what_cannot_be_reported_is_refused(name):
    with pytest.raises(SettingsError, match=f"there are {name} of 3 labels, but scores of 4"):
        small(**{name: np.ones(3)})
    evidence = Evidence(2)
    evidence.add(ranked([[0.9, 0.1]]), labels_of([set()], 2))
    with pytest.raises(SettingsError, match="no document of the test data has a true label"):
        make_content(evidence, About(title="t"))


@pytest.mark.parametrize("pairs", [1, 5, 1000])
def test_counts_do_not_depend_on_what_is_counted_at_a_time(monkeypatch, pairs):
    monkeypatch.setattr(module, "PAIRS", pairs)
    random = np.random.default_rng(3)
    assigned, true = (random.random((50, 9)) < share for share in (0.3, 0.4))
    counts = Counter()
    for given, of_point in zip(assigned, true, strict=True):
        counts.update(product(np.flatnonzero(of_point & ~given), np.flatnonzero(given & ~of_point)))
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:7]
    found = most_frequent_confusions(csr_array(assigned), csr_array(true), most=7)
    missed, given, count, misses = found.tolist()
    assert list(zip(zip(missed, given, strict=True), count, strict=True)) == expected
    assert misses == (true & ~assigned).sum(axis=0)[missed].tolist()
    none = most_frequent_confusions(labels_of([{0}, set()], 2), labels_of([{0}, {1}], 2))
    assert none.tolist() == [[], [], [], []]
