"""The result of training, the same for every model."""

from typing import NamedTuple

__all__ = ["Trained"]


class Trained(NamedTuple):
    """A trained model.

    Attributes
    ----------
    parameters : dict of str to ndarray
        By the names in docs/model-folder.md.
    history : list of dict
        For each epoch `epoch`, the model's objective and `seconds` since the start.
    """

    parameters: dict
    history: list
