"""Topics: shares against responsibilities of all positives, and the list of topics of a model folder."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.bmlpl.counts import Positives, expected_counts
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.topics import list_topics, topic_shares
from xmlgp.errors import ModelFolderError
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.train import preprocess_model, train_model
from xmlgp.runs.trained_model import open_topics

K, T = 7, 4

SETTINGS = BMLPLSettings(topics=T, iterations=4)


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


def test_topics_of_a_model_folder(tmp_path):
    folder = train_model(small_dataset(K=K), tmp_path / "model", SETTINGS)
    topics = open_topics(folder, top=3)
    V, shares = (np.array(folder.array(f"parameters.{name}")) for name in ("topics", "shares"))
    assert topics == list_topics({"topics": V, "shares": shares}, 3)
    assert json.loads(json.dumps(topics)) == [list(topic) for topic in topics]


def test_a_damaged_model_is_refused(tmp_path):
    folder = train_model(small_dataset(K=K), tmp_path / "model", SETTINGS)
    arrays = {name: np.array(array) for name, array in folder.arrays("").items()}
    damaged = ModelFolder.write(
        folder.path,
        settings=SETTINGS,
        stage="trained",
        data=folder.description["data"],
        arrays=arrays | {"parameters.topics": np.ones((K, T), np.float32)},
        history=folder.description["history"],
    )
    with pytest.raises(ModelFolderError, match="model: the model is damaged, its arrays do not fit each other$"):
        open_topics(damaged)


def test_an_untrained_model_is_refused(tmp_path):
    folder = preprocess_model(small_dataset(), tmp_path / "model", SETTINGS)
    with pytest.raises(ModelFolderError, match="model: the model is preprocessed, but not trained yet$"):
        open_topics(folder)


def test_a_model_without_topics_is_refused(tmp_path):
    folder = preprocess_model(small_dataset(), tmp_path / "model", MLGPFSettings(factors=2, inducing_count=3))
    with pytest.raises(ModelFolderError, match="model: mlgpf has no topics; train with --model bmlpl$"):
        open_topics(folder)
