"""The topics of a trained BMLPL: how much each is used, and the labels that it is about."""

from typing import NamedTuple

import numpy as np

from xmlgp.bmlpl.topics import top_labels
from xmlgp.errors import ModelFolderError
from xmlgp.prediction.predictor import Predictor

__all__ = ["Topic", "topics_of"]


class Topic(NamedTuple):
    """A topic, a distribution over labels.

    Attributes
    ----------
    index : int
        Its place among the model's T, from 0.
    share : float
        Its part in the positive labels of the training points (`xmlgp.bmlpl.topics.topic_shares`); the shares of all
        topics sum to 1.
    labels : list of int
        Those of highest weight, the highest first, equal ones by label.
    weights : list of float
        Their probabilities in the topic.
    """

    index: int
    share: float
    labels: list
    weights: list


def topics_of(folder, top=5):
    """Return the topics of a model, as a list of `Topic`: the highest share first, equal ones by index.

    Parameters
    ----------
    folder : ModelFolder
        With `ModelFolder.read(path, topics_of)` all is of one model, even where another one takes its place meanwhile.
    top : int
        Labels to list of each topic, 1 or more; all K if there are no more.

    Raises
    ------
    ModelFolderError
        Where the model is of a kind without topics, is not trained yet, or is damaged.
    """
    model = folder.description["model"]
    if model != "bmlpl":
        raise ModelFolderError(f"{folder.path}: the model is {model}, which has no topics, as bmlpl has")
    # A stranger's arrays are good for this if they are good for scoring.
    Predictor.open(folder)
    topics, used = (folder.array(f"parameters.{name}") for name in ("topics", "shares"))
    found = []
    for index in np.argsort(-used, kind="stable").tolist():
        topic = np.ascontiguousarray(topics[:, index], np.float64)
        labels = top_labels(topic, top)
        found.append(Topic(index, float(used[index]), labels.tolist(), topic[labels].tolist()))
    return found
