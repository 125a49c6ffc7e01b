"""Labels chosen for a measure of all points: by formulas, all choices of small problems, and xCOLUMNs."""

import itertools

import numpy as np
import pytest

from tests.grids import each_value
from xmlgp.errors import NumericalError, UsageError
from xmlgp.metrics.propensity import propensities_of_counts
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.label_choice import PRECISION_SHARE, TOLERANCE, LabelChoice, ascend, parse_measure
from xmlgp.prediction.label_writer import ScoredPoints
from xmlgp.prediction.scores_file import Scores


def random_probabilities(seed, N, K):
    """Return probabilities, N×K, of labels of which few are frequent."""
    random = np.random.default_rng(seed)
    return 1 / (1 + np.exp(-(random.normal(size=(N, K)) * 2 + random.normal(size=K) * 2 - 4)))


def ranked(P, length=None):
    """Return the best labels of each point."""
    order = np.argsort(-P, axis=1, kind="stable")[:, :length].astype(np.int32)
    return Scores.from_top(order, np.take_along_axis(P, order, axis=1), P.shape[1])


def choice(scores, mask):
    """Return which labels are chosen, N×K."""
    chosen = np.zeros((scores.N, scores.K), bool)
    chosen[scores.points[mask], scores.labels[mask]] = True
    return chosen


def value(P, chosen, is_coverage):
    """Return the measure of a choice by its formula: a sum over labels."""
    if is_coverage:
        return np.sum(1 - np.prod(1 - P * chosen, axis=0))
    below = chosen.sum(axis=0) + P.sum(axis=0)
    return np.sum(2 * (P * chosen).sum(axis=0) / np.maximum(below, 1e-300))


def one_by_one(P, k, is_coverage, share):
    """Return the choice of the ascent, in which each gain is the difference of two measures of all points."""
    N, K = P.shape
    chosen = choice(scores := ranked(P), np.tile(np.arange(K) < k, N))
    random, first = np.random.default_rng(0), value(P, chosen, is_coverage)
    weight = share * first / P[chosen].sum()

    def raised(chosen):
        return value(P, chosen, is_coverage) + weight * P[chosen].sum()

    last = -np.inf
    while raised(chosen) - last > TOLERANCE * first:
        last = raised(chosen)
        for point in random.permutation(N):
            chosen[point] = False
            gains = []
            for label in scores.labels[point * K : (point + 1) * K]:
                chosen[point, label] = True
                gains.append(raised(chosen))
                chosen[point, label] = False
            best = np.argsort(-np.array(gains), kind="stable")[:k]
            chosen[point, scores.labels[point * K + best]] = True
    return chosen


@each_value(is_coverage=[False, True], k=[1, 3], share=[0, PRECISION_SHARE], seed=[0, 1])
def test_the_compiled_ascent_is_that_of_the_formulas(is_coverage, k, share, seed):
    P = random_probabilities(seed, 30, 12)
    scores = ranked(P)
    found = choice(scores, ascend(scores, k, is_coverage, share))
    np.testing.assert_array_equal(found, one_by_one(P, k, is_coverage, share))
    assert (found.sum(axis=1) == k).all()
    assert value(P, found, is_coverage) > 1.02 * value(P, choice(scores, np.tile(np.arange(12) < k, 30)), is_coverage)


@pytest.mark.parametrize("is_coverage", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_the_best_of_all_choices_is_found_or_nearly(is_coverage, k):
    sets = [np.isin(np.arange(4), labels) for labels in itertools.combinations(range(4), k)]
    shares = []
    for seed in range(20):
        P = random_probabilities(seed, 4, 4)
        best = max(value(P, np.array(rows), is_coverage) for rows in itertools.product(sets, repeat=4))
        scores = ranked(P)
        shares.append(value(P, choice(scores, ascend(scores, k, is_coverage, 0)), is_coverage) / best)
    assert max(shares) <= 1 + 1e-12
    # The ascent can end where no single point can be improved.
    assert np.mean(np.array(shares) > 1 - 1e-9) >= 0.9
    assert np.mean(shares) > 0.99


@pytest.mark.parametrize(
    # By xCOLUMNs 0.0.2 on the same problem: the higher value of two seeds of block coordinate ascent from the most
    # probable labels, and Frank-Wolfe (find_classifier_using_fw, 30 iterations), whose classifier is random.
    ("is_coverage", "top", "by_ascent", "by_frank_wolfe"),
    [(False, 0.214679, 0.367353, 0.367365), (True, 0.520627, 0.934700, None)],
)
def test_the_measures_are_those_that_xcolumns_reaches(is_coverage, top, by_ascent, by_frank_wolfe):
    P = random_probabilities(5, 200, 50)
    scores = ranked(P)
    assert value(P, choice(scores, np.tile(np.arange(50) < 3, 200)), is_coverage) / 50 == pytest.approx(top, abs=1e-6)
    for share in (0, PRECISION_SHARE):
        found = value(P, choice(scores, ascend(scores, 3, is_coverage, share)), is_coverage) / 50
        assert found == pytest.approx(by_ascent, rel=3e-4)
        assert by_frank_wolfe is None or found == pytest.approx(by_frank_wolfe, rel=3e-4)


@each_value(is_coverage=[False, True], seed=range(3), length=[4, 20])
def test_the_measure_is_never_lower_than_that_of_the_most_probable_labels(is_coverage, seed, length):
    P = random_probabilities(seed, 100, 20)
    scores = ranked(P, length)
    listed = P * choice(scores, slice(None))
    top = choice(scores, np.tile(np.arange(length) < 4, 100))
    found = choice(scores, ascend(scores, 4, is_coverage))
    assert value(listed, found, is_coverage) >= value(listed, top, is_coverage)
    assert length > 4 or (found == top).all()


def test_of_choices_that_are_nearly_as_good_that_of_higher_precision_is_found():
    # The certain label is covered by one point, and half of the others cover the rest as well as all of them do.
    P = np.tile([1.0, 0.5, 0.25], (100, 1))
    scores = ranked(P)
    exact, precise = (choice(scores, ascend(scores, 1, True, share)) for share in (0, PRECISION_SHARE))
    assert exact[:, 0].sum() < 5 < 50 < precise[:, 0].sum()
    assert value(P, exact, True) - 0.01 < value(P, precise, True) < value(P, exact, True)


def test_labels_for_psp_are_those_of_highest_gain():
    P, counts = random_probabilities(3, 40, 12), np.arange(12) ** 2
    q = propensities_of_counts(counts, 200)
    scores = ranked(P)
    chosen = LabelChoice("psp", 3, q).of_scores(scores)
    expected = np.sort(np.argsort(-P / q, axis=1)[:, :3], axis=1)
    np.testing.assert_array_equal(np.sort(chosen.labels.reshape(40, 3), axis=1), expected)
    # The most probable comes first, with its probability.
    assert (np.diff(chosen.scores.reshape(40, 3), axis=1) < 0).all()
    np.testing.assert_array_equal(chosen.scores, P[chosen.points, chosen.labels])

    def mean_psp(scores):
        labels = [ranked((np.random.default_rng(seed).random(P.shape) < P) * 1.0).matrix for seed in range(50)]
        for matrix in labels:
            matrix.eliminate_zeros()
        return np.mean([evaluate_ranking(scores.matrix, matrix.astype(bool), (3,), q)["PSP@3"] for matrix in labels])

    assert mean_psp(chosen) > mean_psp(ranked(P, 3)) + 1


@pytest.mark.parametrize("measure", ["macro-f1", "coverage", "psp"])
def test_the_choice_does_not_depend_on_the_blocks_of_points(measure):
    scores = ranked(random_probabilities(0, 90, 12))
    choose = LabelChoice(measure, 2, np.linspace(0.1, 1, 12) if measure == "psp" else None)
    blocks = [
        ScoredPoints(range(start, stop), None, scores.rows(start, stop)) for start, stop in [(0, 1), (1, 1), (1, 90)]
    ]
    chosen = list(choose.of_blocks(blocks))
    assert [block.ids for block in chosen] == [block.ids for block in blocks]
    expected = choose.of_scores(scores)
    for name in ("indptr", "labels", "scores"):
        stacked = getattr(Scores.stack([block.scores for block in chosen]), name)
        np.testing.assert_array_equal(stacked, getattr(expected, name))


@pytest.mark.parametrize("measure", ["macro-f1", "coverage", "psp"])
def test_points_with_few_labels_or_none_keep_them(measure):
    values = np.array([0.9, 0.5, 0.25, 1.0, 0.5, 0.25, 0.125, 0.0])
    labels = np.array([3, 1, 0, 2, 0, 3, 1, 2], np.int32)
    choose = LabelChoice(measure, 2, np.ones(4) if measure == "psp" else None).of_scores
    chosen = choose(Scores(np.array([0, 0, 3, 4, 4, 8]), labels, values, 4))
    assert np.diff(chosen.indptr).tolist() == [0, 2, 1, 0, 2]
    assert chosen.labels[2] == 2
    for N in (0, 3):
        assert choose(Scores(np.zeros(N + 1, np.int64), labels[:0], values[:0], 4)).N == N


def test_a_probability_that_is_not_finite_raises():
    P = random_probabilities(0, 3, 4)
    P[1, 2] = np.nan
    with pytest.raises(NumericalError, match=r"of label 2 for point 1 is not finite$"):
        LabelChoice("macro-f1", 2).of_scores(ranked(P))


def test_measures_have_a_name_and_k():
    assert parse_measure("Macro-F1@12") == ("macro-f1", 12)
    assert LabelChoice("psp", 5).listed == 64
    assert LabelChoice("psp", 50).listed == 200
    for text in ("", "macro-f1", "f1@5", "psp@0", "psp@-1", "psp@05", "psp@1e3", "xpsp@5", "psp@5 "):
        with pytest.raises(
            UsageError, match=r"^optimise is macro-f1@K, coverage@K or psp@K, such as macro-f1@5, not '"
        ):
            parse_measure(text)
