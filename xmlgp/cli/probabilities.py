"""What subcommands that measure probabilities ask of a scores file and tell about it."""

import numpy as np

from xmlgp.errors import SettingsError

__all__ = ["check_probabilities", "what_is_listed"]


def check_probabilities(scores, path):
    """Raise SettingsError where `Scores` read from a file are no probabilities, or are none at all."""
    if not len(scores.scores):
        raise SettingsError(f"{path} has no scores, so there is no probability to measure")
    if scores.scores.min() < 0 or scores.scores.max() > 1:
        raise SettingsError(
            f"{path} has scores that are no probabilities from 0 to 1; `xmlgp predict --output probability` writes them"
        )


def what_is_listed(scores):
    """Say over which of all probabilities a measure of those in a file is, as the end of a sentence."""
    if len(scores.labels) == scores.N * scores.K:
        return f"all {scores.K} labels of each point"
    longest = np.diff(scores.indptr).max()
    return (
        f"the {len(scores.labels)} labels listed alone, at most {longest} a point of {scores.K}; "
        "`xmlgp predict -k all` lists them all"
    )
