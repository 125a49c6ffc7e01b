"""The list of topics of a model folder: order, labels, and errors."""

import json

import numpy as np
import pytest

from tests.problems import small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.errors import ModelFolderError
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.preprocess import preprocess_model
from xmlgp.runs.stored import open_topics
from xmlgp.runs.train import train_model

K, T = 7, 4

SETTINGS = BMLPLSettings(topics=T, iterations=4)


@pytest.fixture
def folder(tmp_path):
    return train_model(small_dataset(K=K), tmp_path / "model", SETTINGS)


def test_topics_are_sorted_by_share_and_list_their_top_labels(folder):
    found = open_topics(folder, top=3)
    V, used = (np.array(folder.array(f"parameters.{name}")) for name in ("topics", "shares"))
    assert [topic.index for topic in found] == np.argsort(-used).tolist()
    for topic in found:
        assert topic.share == used[topic.index]
        assert topic.labels == np.argsort(-V[:, topic.index], kind="stable")[:3].tolist()
        assert topic.weights == V[topic.labels, topic.index].tolist()


def test_more_labels_than_k_lists_all(folder):
    for topic in open_topics(folder, top=K + 1):
        assert sorted(topic.labels) == list(range(K))
        assert sum(topic.weights) == pytest.approx(1, abs=1e-5)


def test_topics_are_json_serialisable(folder):
    found = open_topics(folder)
    assert json.loads(json.dumps(found)) == [list(topic) for topic in found]


def test_an_untrained_model_is_refused(tmp_path):
    folder = preprocess_model(small_dataset(), tmp_path / "model", SETTINGS)
    with pytest.raises(ModelFolderError, match="model: the model is preprocessed, but not trained yet$"):
        open_topics(folder)


def test_a_model_without_topics_is_refused(tmp_path):
    folder = preprocess_model(small_dataset(), tmp_path / "model", MLGPFSettings(factors=2, inducing_count=3))
    with pytest.raises(ModelFolderError, match="model: mlgpf has no topics; train with --model bmlpl$"):
        open_topics(folder)


DAMAGE = {
    "no topics": {"topics": None},
    "topics with fewer labels": {"topics": np.full((K - 1, T), 1 / (K - 1), np.float32)},
    "topics of one dimension": {"topics": np.full(K * T, 1 / K, np.float32)},
    "fewer topics": {"topics": np.full((K, T - 1), 1 / K, np.float32)},
    "negative weights": {"topics": np.tile(np.array([[2], [-1], *[[0]] * (K - 2)], np.float32), T)},
    "NaN weights": {"topics": np.full((K, T), np.nan, np.float32)},
    "weights that do not sum to one": {"topics": np.ones((K, T), np.float32)},
    "integer weights": {"topics": np.eye(K, T, dtype=np.int32)},
    "fewer intercepts": {"intercepts": np.zeros(T - 1, np.float32)},
    "an infinite intercept": {"intercepts": np.full(T, np.inf, np.float32)},
    "zero shapes": {"shapes": np.zeros(T, np.float32)},
    "scalar shapes": {"shapes": np.array(1, np.float32)},
}


@pytest.mark.parametrize("changes", DAMAGE.values(), ids=DAMAGE)
def test_damaged_models_are_refused(folder, changes):
    arrays = folder.arrays("") | {f"parameters.{name}": array for name, array in changes.items()}
    damaged = ModelFolder.write(
        folder.path,
        settings=folder.settings,
        stage="trained",
        data=folder.description["data"],
        arrays={name: np.array(array) for name, array in arrays.items() if array is not None},
        history=folder.description["history"],
    )
    with pytest.raises(ModelFolderError, match="model: the model is damaged, its arrays do not fit each other$"):
        open_topics(damaged)
