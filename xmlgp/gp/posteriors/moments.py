"""The marginal moments of the latent functions at points, which every posterior returns."""

from typing import NamedTuple

import numpy as np

__all__ = ["Moments"]


class Moments(NamedTuple):
    """Moments of q(h_p(x_i)), or the gradients with respect to them.

    Attributes
    ----------
    mean : ndarray, B×P
        m_ip.
    variance : ndarray, B×P or B×1
        s_ip; one column if all latent functions share it.
    """

    mean: np.ndarray
    variance: np.ndarray
