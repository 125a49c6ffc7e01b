"""The clusters of labels: similar labels together, the means of each cluster, the measured recall, new labels."""

import numpy as np
import pytest

from tests.label_index.problems import BLOBS, K, blobs, latent_of, shrunk_utilities
from xmlgp.label_index import clusters as module
from xmlgp.label_index.clusters import cluster_labels, measured_by_loadings
from xmlgp.runtime.threads import limit_threads


def test_labels_of_a_cluster_are_similar():
    loadings, bias, blob = blobs()
    index = cluster_labels(loadings, bias, 0)
    np.testing.assert_array_equal(np.sort(index.labels), np.arange(K))
    cluster = index.cluster
    for number in range(len(index.biases)):
        labels = cluster == number
        np.testing.assert_allclose(index.centroids[number], loadings[labels].mean(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(index.biases[number], bias[labels].mean(), rtol=1e-4, atol=1e-5)
    # There are many more clusters than blobs, so none needs labels of two.
    assert len(index.biases) > 2 * BLOBS
    assert sum(len(set(blob[cluster == number])) > 1 for number in range(len(index.biases))) <= 2


def test_clusters_do_not_depend_on_the_number_of_cores(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 64)
    loadings, bias, _ = blobs()
    indices = []
    for cores in (1, 3):
        with limit_threads(cores):
            indices.append(cluster_labels(loadings, bias, 0))
    for first, second in zip(*indices, strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(cluster_labels(loadings, bias, 1).labels, indices[0].labels)


@pytest.mark.parametrize("clusters", [1, 3, 20])
def test_recall_is_the_share_of_the_best_labels_that_so_many_clusters_have(clusters):
    loadings, bias, _ = blobs()
    latent = latent_of(50)
    index = measured_by_loadings(cluster_labels(loadings, bias, 0), loadings, bias, latent.mean, 5)
    utilities = latent.mean @ loadings.T + bias
    best = np.argsort(-utilities, axis=1)[:, :5]
    cluster = index.cluster
    first = np.argsort(-index.cluster_scores(latent.mean), axis=1)[:, :clusters]
    share = np.mean([np.isin(cluster[labels], visited).mean() for labels, visited in zip(best, first, strict=True)])
    assert index.recall[clusters - 1] == pytest.approx(share)
    assert index.recall[-1] == 1
    assert index.clusters_for(index.recall[clusters - 1]) <= clusters
    assert index.clusters_for(1.1) is None


def test_labels_that_are_not_found_lower_the_recall():
    loadings, bias, _ = blobs()
    latent = latent_of(50)
    best = np.argsort(-shrunk_utilities(latent, loadings, bias), axis=1)[:, :4]
    found = np.ones(best.shape, bool)
    found[:, 3] = False
    index = cluster_labels(loadings, bias, 0).measured(latent.mean, best, found)
    assert index.recall[-1] == pytest.approx(0.75)
    assert index.clusters_for(0.8) is None
