"""The marginal moments of the latent functions at points, which every posterior returns."""

from typing import NamedTuple

import numpy as np

__all__ = ["Moments"]


class Moments(NamedTuple):
    """Means m_ip, B×P, and variances s_ip, B×P, or B×1 if shared, of q(h_p(x_i)), or the gradients by them."""

    mean: np.ndarray
    variance: np.ndarray
