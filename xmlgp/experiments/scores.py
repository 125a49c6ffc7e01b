"""Scores of test points as one matrix."""

from scipy.sparse import vstack

__all__ = ["KS", "stack_scores"]

#: Numbers of labels k at which P@k and the other ranking measures are computed.
KS = (1, 3, 5)


def stack_scores(blocks):
    """Return the scores of consecutive blocks of points as one csr_array, N×K.

    Parameters
    ----------
    blocks : iterable of Scores
    """
    return vstack([block.matrix for block in blocks], format="csr")
