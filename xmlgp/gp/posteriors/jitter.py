"""Jitter on the diagonal of K_Z, so that it has a Cholesky factor in the given precision."""

import numpy as np

__all__ = ["JITTER", "add_jitter", "jitter_backward"]

#: Added to the diagonal of K_Z as a multiple of its mean, so that K_Z has an inverse in the given precision.
JITTER = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}


def add_jitter(K_Z):
    """Return K_Z + ε tr(K_Z)/M I, with the `JITTER` ε of its precision.

    Parameters
    ----------
    K_Z : ndarray, M×M
    """
    jittered = K_Z.copy()
    # Inducing inputs without features have K_Z = 0; their mean diagonal counts as one.
    scale = np.trace(K_Z) / len(K_Z) or K_Z.dtype.type(1)
    jittered[np.diag_indices_from(jittered)] += _jitter(K_Z) * scale
    return jittered


def jitter_backward(d_jittered):
    """Turn the gradient with respect to K_Z with jitter into that with respect to K_Z, M×M, in place."""
    d_jittered[np.diag_indices_from(d_jittered)] += _jitter(d_jittered) * np.trace(d_jittered) / len(d_jittered)


def _jitter(matrix):
    return matrix.dtype.type(JITTER[matrix.dtype])
