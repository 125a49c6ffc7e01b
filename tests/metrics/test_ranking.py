import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import ndcg_score

from tests.metrics.problems import sparse, sparse_problems
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.metrics.statistics import values
from xmlgp.runtime.errors import SettingsError


def reference(scores, truth, ks, propensities):
    """The definitions in SPEC.md, one point and one rank at a time."""
    pairs = [(row, set(true)) for row, true in zip(scores, truth, strict=True)]
    rankings = [sorted(row, key=lambda label: (-row[label], label)) for row, _ in pairs]
    weights = [1 / p for p in propensities]
    result = {}

    def dcg(gains):
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))

    for k in ks:
        hits = [[label in true for label in ranking[:k]] for ranking, (_, true) in zip(rankings, pairs, strict=True)]
        ndcg = [dcg(of_point) / dcg([1] * min(k, len(true))) if true else 0
                for of_point, (_, true) in zip(hits, pairs, strict=True)]  # fmt: skip
        gains = [[weights[label] * (label in true) for label in ranking[:k]]
                 for ranking, (_, true) in zip(rankings, pairs, strict=True)]  # fmt: skip
        best = [sorted((weights[label] for label in true), reverse=True)[:k] for _, true in pairs]
        result[f"P@{k}"] = 100 * sum(map(sum, hits)) / k / len(pairs)
        result[f"nDCG@{k}"] = 100 * sum(ndcg) / len(pairs)
        result[f"PSP@{k}"] = 100 * sum(map(sum, gains)) / sum(map(sum, best))
        result[f"PSnDCG@{k}"] = 100 * sum(map(dcg, gains)) / sum(map(dcg, best))
    return result


def test_intervals_of_precision_end_at_its_limit():
    # All labels are found: one of three points has three, the others have none.
    labels = sparse([[0, 1, 2], [], []], 3, bool)
    found = intervals(ranking_statistics(sparse([{0: 3.0, 1: 2.0, 2: 1.0}, {}, {}], 3), labels, ks=(1, 3)))
    assert [found["P@1"].high, found["P@3"].high] == pytest.approx([100 / 3, 100 / 3])
    assert found["nDCG@1"].high > 50


def test_hand_worked_example():
    # Four labels with propensities 1, 1/2, 1/2, 1/4, so weights 1, 2, 2, 4.
    #   point 0: true {0, 3}, ranked 0 1 3: a hit, a miss, a hit.
    #   point 1: true {1},    ranked 2 1:   a miss, a hit, nothing.
    #   point 2: no true label, so it counts 0.
    scores = sparse([{0: 0.9, 1: 0.8, 3: 0.7}, {2: 0.5, 1: 0.4}, {0: 1.0}], 4)
    truth = sparse([[0, 3], [1], []], 4, bool)
    result = values(ranking_statistics(scores, truth, ks=(1, 3), propensities=[1, 1 / 2, 1 / 2, 1 / 4]))
    second, third = 1 / math.log2(3), 1 / 2
    assert result == pytest.approx(
        {
            "P@1": 100 * (1 + 0 + 0) / 3,
            "P@3": 100 * (2 / 3 + 1 / 3 + 0) / 3,
            "nDCG@1": 100 * (1 + 0 + 0) / 3,
            "nDCG@3": 100 * ((1 + third) / (1 + second) + second / 1 + 0) / 3,
            # The best first label of point 0 is 3 with weight 4, of point 1 label 1 with weight 2.
            "PSP@1": 100 * (1 + 0) / (4 + 2),
            "PSP@3": 100 * ((1 + 4) + 2) / ((4 + 1) + 2),
            "PSnDCG@1": 100 * (1 + 0) / (4 + 2),
            "PSnDCG@3": 100 * (1 + 4 * third + 2 * second) / (4 + 1 * second + 2),
        }
    )


@settings(max_examples=60)
@given(sparse_problems([-1.5, 0.0, 0.25, 0.5, 2.0]).filter(lambda problem: any(problem[1])), st.data())
def test_agrees_with_a_literal_implementation(problem, data):
    scores, truth, n_labels = problem
    propensities = data.draw(st.lists(st.floats(0.05, 1.0), min_size=n_labels, max_size=n_labels))
    ks = data.draw(st.lists(st.integers(1, n_labels + 2), min_size=1, max_size=3, unique=True))
    arguments = sparse(scores, n_labels), sparse(truth, n_labels, bool)
    before = [matrix.indices.tolist() for matrix in arguments]
    result = values(ranking_statistics(*arguments, ks, propensities))
    assert [matrix.indices.tolist() for matrix in arguments] == before
    assert result == pytest.approx(reference(scores, truth, ks, propensities))
    assert list(result) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in ks]


def test_ndcg_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    # scikit-learn too divides by the best DCG at k, which for binary relevance stops at the number of true labels.
    truth = rng.random((50, 12)) < 0.2
    scores = rng.random((50, 12))
    result = values(ranking_statistics(csr_array(scores), csr_array(truth)))
    assert not truth.any(axis=1).all()
    for k in (1, 3, 5):
        assert result[f"nDCG@{k}"] == pytest.approx(100 * ndcg_score(truth, scores, k=k))


def test_a_huge_k_or_label_space_allocates_nothing():
    last = 2**31 - 2
    result = values(
        ranking_statistics(sparse([{last: 1.0, 3: 0.5}], last + 1), sparse([[last, 3]], last + 1, bool), ks=(2,))
    )
    assert result["P@2"] == 100
    result = values(
        ranking_statistics(sparse([{0: 1.0}], 2), sparse([[0]], 2, bool), ks=(10**12,), propensities=[1, 1])
    )
    assert result[f"nDCG@{10**12}"] == 100


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [([{}, {}], [[0]], "the scores are 2×3, the true labels 1×3"), ([{0: 1.0}], [[]], "no point has a true label")],
)
def test_what_cannot_be_evaluated_is_refused(scores, truth, message):
    with pytest.raises(SettingsError, match=message):
        ranking_statistics(sparse(scores, 3), sparse(truth, 3, bool))
