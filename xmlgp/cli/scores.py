"""Checks and messages of the subcommands that evaluate a scores file."""

import numpy as np

from xmlgp.errors import SettingsError

__all__ = ["check_label_count", "check_probabilities", "count_labels", "describe_coverage"]


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


def check_label_count(train, K, expected, other):
    """Raise SettingsError if training data have another number of labels than what they are compared with.

    Parameters
    ----------
    train : str
        Where the data come from.
    K, expected : int
    other : str
        What has the expected number, as the subject of a sentence.
    """
    if expected != K:
        raise SettingsError(f"--train: {train} has {count_labels(K)}, but {other} has {count_labels(expected)}")


def count_labels(K):
    """Return a number of labels in words."""
    return "1 label" if K == 1 else f"{K} labels"
