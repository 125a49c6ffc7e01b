"""What learning on starts from, the same for every model."""

from typing import NamedTuple

__all__ = ["Earlier"]


class Earlier(NamedTuple):
    """A trained model that is to learn on.

    Attributes
    ----------
    settings : Settings
    preprocessed : Preprocessed
    parameters : mapping of str to ndarray
        Those of the model, read-only, with its `xmlgp.training.statistics`.
    N, D, K : int
        Points learned so far, features and labels.
    """

    settings: object
    preprocessed: object
    parameters: dict
    N: int
    D: int
    K: int
