"""What held-out points choose: neighbours where they help, and none where they do not."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import paired_dataset, small_features
from xmlgp.data.dataset import Features
from xmlgp.neighbours import choice as module
from xmlgp.neighbours.choice import DEFAULT, HeldOutPoints, choose
from xmlgp.neighbours.predictions import Neighbours, NeighbourTerm, scaled_words


def chosen(words, labels, utilities, dense=None, ranked=None):
    """Return the choices of the last quarter of the points, whose utilities without neighbours are given, N×K."""
    D, K = words.shape[1], labels.shape[1]
    trained, held = np.split(np.arange(labels.shape[0]), [3 * labels.shape[0] // 4])
    counts = labels[trained].sum(axis=0)
    index = Neighbours.build(
        scaled_words(words[trained], np.ones(D)), labels[trained], DEFAULT, None if dense is None else dense[trained]
    )
    neighbours = NeighbourTerm(index, np.ones(D), counts)

    def moments(pairs):
        mean = np.take_along_axis(utilities[held], pairs, axis=1)
        return mean, np.full(mean.shape, 0.1)

    if ranked is None:
        ranked = np.tile(np.arange(K, dtype=np.int32), (len(held), 1))
    points = Features(words[held], None if dense is None else dense[held])
    return choose(neighbours, HeldOutPoints(points, labels[held], ranked, moments, counts, len(trained)))


def noise(shape, seed=3):
    return np.random.default_rng(seed).normal(-2, 1, shape)


def test_neighbours_that_tell_the_labels_get_weight():
    # No linear model can rank these labels.
    dataset = paired_dataset(N=300, K=7)
    utilities = noise((300, 7))
    found = chosen(dataset.features.sparse, dataset.labels, utilities)
    assert found.weight in module.WEIGHTS
    assert found == chosen(dataset.features.sparse, dataset.labels, utilities)


def test_neighbours_get_no_weight_where_utilities_are_perfect_and_labels_noise():
    # With one label each, no order of true labels is better than another.
    labels = sp.csr_array(np.eye(7, dtype=bool)[np.random.default_rng(1).integers(7, size=300)])
    utilities = np.where(labels.toarray(), 4.0, -4.0) + 0.01 * noise((300, 7))
    found = chosen(small_features(300), labels, utilities)
    assert found.weight == 0
    assert found.kernel in module.KERNELS


@pytest.mark.parametrize("missing", [False, True])
def test_candidates_that_are_missing_change_nothing(missing):
    dataset = paired_dataset(N=300, K=7)
    ranked = np.full((75, 9), -1, np.int32)
    ranked[:, 2:] = np.arange(7)
    found = chosen(dataset.features.sparse, dataset.labels, noise((300, 7)), ranked=ranked if missing else None)
    assert found == chosen(dataset.features.sparse, dataset.labels, noise((300, 7)))


def test_dense_features_choose_their_relevance():
    random = np.random.default_rng(2)
    dense = random.normal(size=(300, 2)).astype(np.float32)
    labels = sp.csr_array(np.stack([dense[:, 0] > 0, dense[:, 0] < -0.5, dense[:, 1] > 0.5, dense[:, 1] < 0], axis=1))
    # Words say nothing.
    found = chosen(small_features(300), labels, noise((300, 4)), dense)
    assert found.weight >= 0.5
    assert found.kernel in module.DENSE_KERNELS
