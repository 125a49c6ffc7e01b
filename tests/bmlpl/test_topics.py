"""Shares of topics against responsibilities of all positives, and top labels against a full sort."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import DETERMINISTIC
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.positives import Positives
from xmlgp.bmlpl.topics import top_labels, topic_shares


def test_shares_weight_labels_and_not_counts():
    # Label 0 has three counts per point, two of topic 0; label 1 has one count per point; label 2 has no points.
    counts = np.array([[20.0, 10.0], [1.0, 4.0], [0.0, 0.0]])
    result = topic_shares(counts, np.array([10, 5, 0]))
    np.testing.assert_allclose(result, [(10 * 2 / 3 + 1) / 15, (10 / 3 + 4) / 15])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_are_mean_responsibilities_of_positives(dtype):
    random = np.random.default_rng(0)
    labels = sp.csr_array(random.random((30, 8)) < 0.3)
    topics, activations = (
        random.dirichlet(np.ones(8), 4).T.astype(dtype),
        1e-4 * random.gamma(1.0, size=(30, 4)).astype(dtype),
    )
    result = topic_shares(expected_counts(Positives(labels), topics, activations).by_label, labels.sum(axis=0))
    assert result.dtype == dtype
    # Rates are so small that each positive has one count.
    n, k = labels.nonzero()
    responsibilities = topics[k] * activations[n].astype(np.float64)
    responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, responsibilities.mean(axis=0), atol=1e-3)


def test_shares_without_positives_are_equal():
    np.testing.assert_array_equal(topic_shares(np.zeros((3, 4)), np.zeros(3, int)), 0.25)


@DETERMINISTIC
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3]), min_size=1, max_size=12), st.integers(1, 15))
def test_top_labels_agree_with_a_full_sort(topic, count):
    topic = np.array(topic, np.float32)
    np.testing.assert_array_equal(top_labels(topic, count), np.lexsort((np.arange(len(topic)), -topic))[:count])
