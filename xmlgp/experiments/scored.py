"""Scores of test points, as measures want them."""

from scipy.sparse import vstack

__all__ = ["KS", "stacked"]

#: Labels a point that precision is measured at.
KS = (1, 3, 5)


def stacked(blocks):
    """Return the `Scores` of some points at a time as one matrix, N×K.

    Parameters
    ----------
    blocks : iterable of Scores
    """
    return vstack([block.matrix for block in blocks], format="csr")
