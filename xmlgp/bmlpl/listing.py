"""The topics of a trained BMLPL: the share of each and its heaviest labels."""

from typing import NamedTuple

import numpy as np

from xmlgp.bmlpl.topics import top_labels

__all__ = ["Topic", "list_topics"]


class Topic(NamedTuple):
    """A topic, a distribution over labels.

    Attributes
    ----------
    index : int
        Its place among the model's T, from 0.
    share : float
        Its part in the positive labels of the training points (`xmlgp.bmlpl.topics.label_shares`); the shares of all
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


def list_topics(parameters, top=5):
    """Return the topics of a model (list of `Topic`), highest share first, equal ones by index.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Of a trained BMLPL.
    top : int
        Labels to list of each topic, 1 or more; all K if there are no more.
    """
    topics, shares = parameters["topics"], parameters["shares"]
    found = []
    for index in np.argsort(-shares, kind="stable").tolist():
        topic = np.ascontiguousarray(topics[:, index], np.float64)
        labels = top_labels(topic, top)
        found.append(Topic(index, float(shares[index]), labels.tolist(), topic[labels].tolist()))
    return found
