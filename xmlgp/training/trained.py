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
    validation : list of dict or None
        The history of the training on the points not held out, with the measures of the held-out points; None where
        no points were held out.
    """

    parameters: dict
    history: list
    validation: list | None = None
