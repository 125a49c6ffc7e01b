"""Selection of the best labels block by block, against a stable sort of all labels; lists of labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.problems import DETERMINISTIC
from xmlgp.prediction.top_k import united, update_top_k

ranked = st.tuples(st.integers(1, 6), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.sampled_from([-np.inf, -1, 0, -0.0, 1, 2]))
)


@DETERMINISTIC
@given(ranked, st.data())
def test_equal_scores_are_ordered_by_label(scores, data):
    k = data.draw(st.integers(1, scores.shape[1]))
    width = data.draw(st.integers(1, scores.shape[1]))
    labels, best = np.empty((len(scores), k), np.int32), np.empty((len(scores), k), np.float32)
    for start in range(0, scores.shape[1], width):
        update_top_k(scores[:, start : start + width], start, labels, best)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(scores, expected, axis=1))


def test_united_lists_have_no_repetitions():
    found = united(np.array([[3, -1, 1], [2, 5, -1]], np.int32), np.array([[1, 4], [-1, -1]], np.int32))
    assert [list(row[row >= 0]) for row in found] == [[1, 3, 4], [2, 5]]
    assert found.shape == (2, 5)
