"""The embedded data set `toy`, drawn from the prior of MLGPF and identical on every machine.

It uses only raw bits of PCG64, which NumPy guarantees not to change. Each draw of a word or label is a comparison whose
margin, at least 1e-10, is much larger than the rounding errors that differ between machines.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset, Features

__all__ = ["toy_dataset"]

SEED = 3
N = 1500
N_TEST = 700
D = 900
K = 100
P = 10

WORDS_A_POINT = 40
LABELS_A_POINT = 3.0

# The frequency of the r-th most frequent word or label is proportional to 1 / (r + offset).
WORD_OFFSET = 3
LABEL_OFFSET = 4

#: Standard deviation of the loadings; large, so that labels depend on the words much more than on chance.
LOADING_SCALE = 12.0

#: Variance of the normal distribution whose distribution function approximates the sigmoid.
PROBIT_VARIANCE = 8 / np.pi


def toy_dataset() -> tuple[Dataset, Dataset]:
    """Draw the training points (1500) and the test points (700), D = 900, K = 100, as two data sets.

    A point is a bag of words, about 35 different ones; x is its vector of word counts, scaled to unit length. The P
    latent functions are draws of a GP with the linear kernel, h_p(x) = w_p·x with w_p ~ N(0, I), and f = Φ h + b. Label
    k is positive with probability σ(f_k), about 3 labels a point. The bias b makes the frequencies of the labels follow
    a power law.
    """
    bits = np.random.PCG64(SEED)

    def uniform(*shape: int) -> NDArray[np.float64]:
        # A double has 53 bits, so of the 64 raw ones the lowest 11 are dropped.
        numbers: NDArray[np.uint64] = np.asarray(bits.random_raw(int(np.prod(shape))))
        return np.asarray((numbers >> np.uint64(11)).reshape(shape) * 2.0**-53)

    def normal(*shape: int) -> NDArray[np.float64]:
        # The sum of 12 uniforms is nearly normal, with variance 1. Exact methods need logarithms and cosines, which
        # differ between machines in the last digits.
        return sum((uniform(*shape) for _ in range(12)), start=np.zeros(shape)) - 6.0

    ends = np.cumsum(_power_law(D, WORD_OFFSET))
    words = np.searchsorted(ends[:-1], uniform(N + N_TEST, WORDS_A_POINT))
    counts = np.zeros((N + N_TEST, D))
    np.add.at(counts, (np.arange(N + N_TEST)[:, None], words), 1)

    h = counts / np.linalg.norm(counts, axis=1, keepdims=True) @ normal(D, P)
    f = h @ (LOADING_SCALE / np.sqrt(P) * normal(K, P)).T
    # b such that E σ(f + b) is the desired frequency, if f is normal and σ a normal distribution function.
    quantiles = np.array([NormalDist().inv_cdf(p) for p in LABELS_A_POINT * _power_law(K, LABEL_OFFSET)])
    b = quantiles * np.sqrt(PROBIT_VARIANCE + f.var(axis=0)) - f.mean(axis=0)
    probabilities = 1 / (1 + np.exp(-(f + b)))
    labels = uniform(N + N_TEST, K) < probabilities
    points = Dataset(Features(csr_array(counts.astype(np.float32))), csr_array(labels))
    return points.rows(slice(0, N)), points.rows(slice(N, N + N_TEST))


def _power_law(size: int, offset: int) -> NDArray[np.float64]:
    """Return `size` probabilities proportional to 1 / (rank + offset)."""
    weights: NDArray[np.float64] = 1 / (np.arange(1, size + 1) + offset)
    return np.asarray(weights / weights.sum())
