"""Labels that the index finds, against all labels sorted by a dense product."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.label_index.problems import K, blobs, latent_of, shrunk_utilities
from xmlgp.label_index.clusters import cluster_labels
from xmlgp.label_index.search import LabelSearch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_variance", [True, False])
def test_a_search_of_all_clusters_finds_the_highest(dtype, with_variance):
    loadings, bias, _ = blobs(dtype)
    latent = latent_of(70, dtype)
    excluded = np.random.default_rng(2).random((70, K)) < 0.05
    utilities = shrunk_utilities(latent if with_variance else latent._replace(variance=0), loadings, bias)
    if not with_variance:
        latent = latent._replace(variance=None)
    index = cluster_labels(loadings, bias, 0)
    search = LabelSearch(index, loadings, bias, len(index.biases))
    np.testing.assert_array_equal(search.candidates(latent, 9), np.argsort(-utilities, axis=1)[:, :9])
    utilities[excluded] = -np.inf
    found = search.candidates(latent, 9, sp.csr_array(excluded))
    np.testing.assert_array_equal(found, np.argsort(-utilities, axis=1)[:, :9])


def test_a_search_of_few_clusters_finds_the_highest_in_these():
    loadings, bias, _ = blobs()
    latent = latent_of(70)
    index = cluster_labels(loadings, bias, 0)
    cluster = index.cluster
    visited = np.argsort(-index.cluster_scores(latent.mean), axis=1)[:, :12]
    utilities = shrunk_utilities(latent, loadings, bias)
    utilities[~(cluster[None, :, None] == visited[:, None]).any(axis=2)] = -np.inf
    found = LabelSearch(index, loadings, bias, 12).candidates(latent, 5)
    np.testing.assert_array_equal(found, np.argsort(-utilities, axis=1)[:, :5])


def test_points_with_too_few_labels_in_their_clusters_visit_more():
    loadings, bias, _ = blobs()
    index = cluster_labels(loadings, bias, 0)
    latent = latent_of(70)
    search = LabelSearch(index, loadings, bias, 1)
    assert (search.candidates(latent, 300) >= 0).all()
    # All labels are asked for, and one is excluded.
    excluded = np.zeros((70, K), bool)
    excluded[:, 17] = True
    found = search.candidates(latent, K, sp.csr_array(excluded))
    assert (found[:, -1] == -1).all()
    np.testing.assert_array_equal(np.sort(found[:, :-1], axis=1)[0], np.delete(np.arange(K), 17))


def test_what_is_found_for_a_point_does_not_depend_on_the_other_points():
    loadings, bias, _ = blobs()
    latent = latent_of(300)
    search = LabelSearch(cluster_labels(loadings, bias, 0), loadings, bias, 10)
    together = search.candidates(latent, 20)
    for rows in ([7], [299, 0, 4, 4], range(100, 230)):
        rows = list(rows)
        some = latent._replace(mean=latent.mean[rows], variance=latent.variance[rows])
        np.testing.assert_array_equal(search.candidates(some, 20), together[rows])
