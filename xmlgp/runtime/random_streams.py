"""Streams of random numbers: one for each purpose, so that a change of one leaves the others as they are."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

__all__ = ["Stream", "random_stream"]


class Stream(IntEnum):
    """What random numbers are drawn for. Streams without a number here are those of the seed alone.

    Numbers stay as they are: another one would give another model for the same seed. Three purposes share number 1,
    which changes none of them: they are drawn from different counts, in different models or stages.
    """

    #: Points that training holds out.
    HELD_OUT = 1
    #: Points that initial inducing inputs are computed from.
    INDUCING_CANDIDATES = 1
    #: Positive labels that BMLPL is shown.
    REVEALED_LABELS = 1
    #: The order of points in each epoch.
    MINIBATCHES = 2
    #: Points that are sampled for each label in a sweep.
    SWEEP = 3


def random_stream(seed: int, stream: Stream, *keys: int) -> np.random.Generator:
    """Return the generator of a stream; keys, such as the number of an epoch, tell its uses apart."""
    return np.random.default_rng([seed, stream, *keys])
