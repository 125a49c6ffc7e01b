"""Checks and messages of the subcommands that evaluate probabilities in a scores file."""

import numpy as np

from xmlgp.errors import SettingsError

__all__ = ["check_probabilities", "describe_coverage"]


def check_probabilities(scores, path):
    """Raise SettingsError if `Scores` read from a file are not probabilities, or if there are none."""
    if not len(scores.scores):
        raise SettingsError(f"{path} contains no scores, so there are no probabilities to evaluate")
    if scores.scores.min() < 0 or scores.scores.max() > 1:
        raise SettingsError(
            f"{path} contains scores outside [0, 1]; `xmlgp predict --output probability` writes probabilities"
        )


def describe_coverage(scores):
    """Return which labels a scores file lists, as the end of a sentence."""
    if len(scores.labels) == scores.N * scores.K:
        return f"all {scores.K} labels of each point"
    longest = np.diff(scores.indptr).max()
    return (
        f"the {len(scores.labels)} listed labels only, at most {longest} of {scores.K} per point; "
        "`xmlgp predict -k all` lists all labels"
    )
