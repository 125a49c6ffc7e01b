"""Two methods compared on the same points: against formulas, a permutation test, and one another's place."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from xmlgp.errors import SettingsError
from xmlgp.runs.compare import compare
from xmlgp.runs.evaluate import evaluate

N, K = 400, 12


@pytest.fixture(scope="module")
def problem():
    """Return the scores of a better and a worse method, which share the noise of each point, and the true labels."""
    random = np.random.default_rng(1)
    Y = sp.csr_array(random.random((N, K)) < np.linspace(0.02, 0.4, K))
    shared = random.normal(size=(N, K)) + 2.0 * Y.toarray()
    a, b = (np.exp(shared + random.normal(0, noise, (N, K))) for noise in (0.6, 0.7))
    return a, b, Y


def precisions(scores, Y, k):
    """Return the precision of each point that has a label, in percent."""
    top = np.argsort(-scores, axis=1)[:, :k]
    dense = Y.toarray()
    return 100 * np.take_along_axis(dense, top, axis=1).mean(axis=1)[dense.any(axis=1)]


@pytest.mark.parametrize("k", [1, 3])
def test_differences_are_those_of_a_permutation_test_and_of_a_mean_of_pairs(problem, k):
    a, b, Y = problem
    found = compare(a, b, Y, ks=[k]).measures[f"P@{k}"]
    gaps = precisions(a, Y, k) - precisions(b, Y, k)
    assert found.difference == pytest.approx(gaps.mean())
    assert (found.a, found.b) == pytest.approx((precisions(a, Y, k).mean(), precisions(b, Y, k).mean()))
    # Student's interval of the mean gap; the standard error has an error of 2 %, and one more point that may differ.
    reach = stats.t.ppf(0.975, len(gaps) - 1) * stats.sem(gaps)
    assert found.interval == pytest.approx((gaps.mean() - reach, gaps.mean() + reach), abs=0.12 * reach)
    # Where methods are equal, the gap of each point has either sign.
    signs = np.random.default_rng(2).choice([-1, 1], (4000, len(gaps)))
    p = np.mean(np.abs(signs @ gaps) >= abs(gaps.sum()) - 1e-9)
    assert 0.001 < p < 0.9
    assert found.p == pytest.approx(p, abs=0.02)


def test_the_same_scores_do_not_differ(problem):
    a, _, Y = problem
    found = compare(a, a.copy(), Y, train=sp_dataset(Y))
    rows = list(found.measures.values())
    for decile in found.deciles:
        rows += decile.measures.values()
    for row in rows:
        assert (row.difference, row.p) == (0, 1)
        assert -row.interval.low == row.interval.high
    # On other points they might.
    assert found.measures["P@1"].interval.high > 0
    assert found.points == []


def sp_dataset(Y):
    from xmlgp.data.dataset import Dataset
    from xmlgp.data.features import Features

    return Dataset(Features(sp.csr_array((Y.shape[0], 3), dtype=np.float32)), Y)


def test_the_methods_in_the_other_order_differ_with_the_other_sign(problem):
    a, b, Y = problem
    forth = compare(a, b, Y, train=sp_dataset(Y))
    back = compare(b, a, Y, train=sp_dataset(Y))
    pairs = [(row, back.measures[name]) for name, row in forth.measures.items()]
    for row, other in zip(forth.deciles, back.deciles, strict=True):
        pairs += [(row.measures[name], other.measures[name]) for name in ("P@5", "recall@5")]
    for row, other in pairs:
        assert (other.difference, *other.interval) == pytest.approx(
            (-row.difference, -row.interval[1], -row.interval[0])
        )
        assert (other.a, other.b, other.p) == pytest.approx((row.b, row.a, row.p))
    assert [row._replace(a=row.b, b=row.a, hits=row.hits[::-1]) for row in back.points] == forth.points


def test_measures_are_those_of_evaluate_and_deciles_add_up(problem):
    a, b, Y = problem
    train = sp_dataset(Y)
    found = compare(a, b, Y, train=train, ks=[1, 5])
    for place, scores in enumerate((a, b)):
        for name, value in evaluate(scores, Y, train=train, ks=[1, 5], macro=True).measures.items():
            assert found.measures[name][place] == pytest.approx(value)
    tenths = [evaluate(scores, Y, train=train, ks=[1, 5], deciles=True).deciles for scores in (a, b)]
    for row, *both in zip(found.deciles, *tenths, strict=True):
        assert row[:4] == both[0][:4] == both[1][:4]
        for name, gap in row.measures.items():
            assert gap[:2] == pytest.approx([tenth.statistics[name].value for tenth in both])
    added = [row.measures["P@5"].difference for row in found.deciles]
    assert sum(added) == pytest.approx(found.measures["P@5"].difference)


def test_the_points_that_differ_most_come_first(problem):
    a, b, Y = problem
    tops = [np.argsort(-scores, axis=1)[:, :3] for scores in (a, b)]
    hits = [np.take_along_axis(Y.toarray(), top, axis=1).sum(axis=1) for top in tops]
    gaps = 2 * np.abs(hits[0] - hits[1]) / (3 + Y.sum(axis=1))
    found = compare(a, b, Y, ks=[3]).points
    assert [gaps[row.point - 1] for row in found] == pytest.approx(sorted(gaps, reverse=True)[: len(found)])
    for row in found[:9]:
        i = row.point - 1
        assert row.labels == np.flatnonzero(Y.toarray()[i]).tolist()
        assert (row.a, row.b, row.hits) == (*(top[i].tolist() for top in tops), (hits[0][i], hits[1][i]))


def test_labels_that_only_one_method_lists_keep_their_names():
    labels = [["red", "blue"], ["blue"], ["green"]]
    a = [[("red", 0.9), ("pink", 0.5)], [("blue", 0.5)], [("amber", 0.5)]]
    b = [[("green", 0.9), ("red", 0.5)], [("red", 0.5)], [("green", 0.5)]]
    found = compare(a, b, labels, ks=[1, 2])
    assert found.measures["P@1"][:3] == pytest.approx((200 / 3, 100 / 3, 100 / 3))
    assert [tuple(row) for row in found.points] == [
        (2, ["blue"], ["blue"], ["red"], (1, 0)),
        (3, ["green"], ["amber"], ["green"], (0, 1)),
    ]


def test_assigned_labels_are_compared_by_f1():
    labels = [["red", "blue"], ["blue"], ["green"]]
    found = compare([["red", "blue"], [], ["red"]], [["red"], [], ["green"]], labels)
    assert (found.kind, found.measures["recall_micro"][:2]) == ("assignment", (0.5, 0.5))
    assert [(row.point, row.hits) for row in found.points] == [(3, (0, 1)), (1, (2, 1))]
    with pytest.raises(SettingsError, match="ranks labels, and the other assigns them, so no measure"):
        compare([["red"], [], []], [[("red", 1.0)], [], []], labels)


def test_data_of_one_label_are_compared_by_accuracy():
    true = sp.csr_array(np.array([[1], [0], [1], [0]], bool))
    scores = [
        sp.csr_array((values, [0] * 4, range(5)), (4, 1)) for values in ([0.9, 0.2, 0.8, 0.1], [0.9, 0.2, 0.3, 0.6])
    ]
    found = compare(*scores, true)
    assert (found.kind, found.measures["accuracy"][:3]) == ("binary", (100, 50, 50))
