"""The index that a model of many labels keeps: its recall, approximate predictions."""

import numpy as np
import pytest

import xmlgp
from tests.problems import small_dataset
from xmlgp.label_index import clusters
from xmlgp.label_index.clusters import LabelIndex
from xmlgp.mlgpf import indexing

SETTINGS = {"label_weights": True, "factors": 4, "epochs": 2, "regression_points": 0, "calibration": False}
DATASET = small_dataset(N=300, D=60, K=80)


@pytest.fixture(autouse=True)
def few_labels_are_indexed(monkeypatch):
    monkeypatch.setattr(indexing, "FEWEST_LABELS", 50)
    monkeypatch.setattr(clusters, "LEAST_SIZE", 2)
    # Few candidates, so that labels are missed.
    monkeypatch.setattr("xmlgp.prediction.selection.SEARCHED", 1)


@pytest.fixture(scope="module")
def trained():
    """Return a function that trains a model once, because the fixture above must come first."""
    models = []

    def model():
        if not models:
            models.append(xmlgp.train(DATASET, settings=SETTINGS))
        return models[0]

    return model


def best_of(predictor, features):
    return np.concatenate([ranked.labels.reshape(ranked.N, -1) for ranked in predictor.top(features, 5)])


def share_of_best(model, recall):
    """Return the share of the five best labels that a search with this recall finds."""
    exact = best_of(model.predictor, DATASET.features)
    found = best_of(model.predictor.searching(recall), DATASET.features)
    return (exact[:, :, None] == found[:, None, :]).any(axis=2).mean()


def test_as_many_of_the_best_labels_are_found_as_was_measured(trained):
    model = trained()
    recall = LabelIndex.of(model.parameters).recall
    assert recall[0] < recall[len(recall) // 2]
    for count in 1, 5, 20:
        # In few clusters there are fewer candidates, among which no label of the measured ones is missed.
        assert share_of_best(model, recall[count - 1]) >= recall[count - 1] - 1e-6
    assert model.predictor.searching(1.01) is None


def test_with_all_candidates_scores_are_those_of_an_exact_ranking(trained, monkeypatch):
    model = trained()
    monkeypatch.setattr("xmlgp.prediction.selection.SEARCHED", 80)
    exact = best_of(model.predictor, DATASET.features)
    np.testing.assert_array_equal(best_of(model.predictor.searching(0.3), DATASET.features), exact)


def test_a_point_with_too_few_candidates_is_ranked_exactly(trained, monkeypatch):
    """Damaged centroids may not be finite products, and then clusters have no order."""
    model = trained()
    exact = best_of(model.predictor, DATASET.features)
    searching = model.predictor.searching(0.1)
    candidates = type(searching).candidates

    def too_few(self, points, count, output):
        found = candidates(self, points, count, output)
        return None if found is None else np.full_like(found, -1)

    monkeypatch.setattr(type(searching), "candidates", too_few)
    np.testing.assert_array_equal(best_of(searching, DATASET.features), exact)
