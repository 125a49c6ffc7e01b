"""Topics: shares against responsibilities of all positives."""

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.bmlpl.counts import Positives, expected_counts
from xmlgp.bmlpl.topics import list_topics, topic_shares


def test_shares_weight_labels_and_not_counts():
    # Label 0 has three counts per point, two of topic 0; label 1 has one count per point; label 2 has no points.
    counts = np.array([[20.0, 10.0], [1.0, 4.0], [0.0, 0.0]])
    result = topic_shares(counts, np.array([10, 5, 0]))
    np.testing.assert_allclose(result, [(10 * 2 / 3 + 1) / 15, (10 / 3 + 4) / 15])


def test_shares_are_mean_responsibilities_of_positives():
    random = np.random.default_rng(0)
    labels = sp.csr_array(random.random((30, 8)) < 0.3)
    topics = random.dirichlet(np.ones(8), 4).T.astype(np.float32)
    activations = 1e-4 * random.gamma(1.0, size=(30, 4)).astype(np.float32)
    result = topic_shares(expected_counts(Positives(labels), topics, activations).by_label, labels.sum(axis=0))
    assert result.dtype == np.float32
    # Rates are so small that each positive has one count.
    n, k = labels.nonzero()
    responsibilities = topics[k] * activations[n].astype(np.float64)
    responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, responsibilities.mean(axis=0), atol=1e-3)


def test_shares_without_positives_are_equal():
    np.testing.assert_array_equal(topic_shares(np.zeros((3, 4)), np.zeros(3, int)), 0.25)


@pytest.mark.parametrize("top", [1, 4, 15])
def test_listed_labels_agree_with_a_full_sort(top):
    V = np.random.default_rng(0).choice([0, 0.1, 0.2], size=(12, 3)).astype(np.float32)
    topics = list_topics({"topics": V, "shares": np.array([0.2, 0.6, 0.2])}, top)
    assert [topic.index for topic in topics] == [1, 0, 2]
    for topic in topics:
        column = V[:, topic.index]
        np.testing.assert_array_equal(topic.labels, np.lexsort((np.arange(12), -column))[:top])
        np.testing.assert_array_equal(topic.weights, column[topic.labels])
