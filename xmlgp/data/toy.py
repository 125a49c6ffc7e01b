"""The embedded data set `toy`: points, labels and all drawn from the model's own story, the same on every machine.

Only raw bits of PCG64 are drawn, which NumPy keeps the same for ever, and every decision (which word, which label) is
a comparison that no machine's rounding in the last place turns over: the tests measure by how much.
"""

from statistics import NormalDist

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dataset import Dataset

__all__ = ["toy_dataset"]

SEED = 3
N, N_TEST, D, K, P = 1500, 700, 900, 100, 10

WORDS_A_POINT = 40
LABELS_A_POINT = 3.0

# Frequency of the r-th most frequent word or label: 1 / (r + offset), a power law with a blunted head.
WORD_OFFSET = 3
LABEL_OFFSET = 4

#: Standard deviation of the loadings: utilities so large that labels hang on the words far more than on chance.
LOADING_SCALE = 12.0

#: Variance of the normal distribution whose distribution function is close to the sigmoid.
PROBIT_VARIANCE = 8 / np.pi


def toy_dataset():
    """Draw the data set.

    A point is a bag of words, word j at its count, x its unit-length row. P latent functions come from a GP with the
    linear kernel, h_p(x) = w_p·x with w_p ~ N(0, I); f = Φ h + b; label k holds with probability σ(f_k), where b makes
    it as frequent as a power law says.

    Returns
    -------
    train, test : Dataset
        1500 and 700 points with D = 900 features, about 35 of them not zero, and K = 100 labels, about 3 of them
        positive.
    """
    counts, labels, _ = _draw()
    points = Dataset(csr_array(counts.astype(np.float32)), csr_array(labels))
    return points.rows(slice(0, N)), points.rows(slice(N, N + N_TEST))


def _draw():
    """Return counts (N + N_TEST)×D, labels (N + N_TEST)×K, and the least distance of any decision from turning over."""
    bits = np.random.PCG64(SEED)

    def uniform(*shape):
        # 53 bits, all that a double holds.
        return (bits.random_raw(int(np.prod(shape))) >> np.uint64(11)).reshape(shape) * 2.0**-53

    def normal(*shape):
        # The sum of 12 uniforms has variance 1; it needs no logarithm or cosine, which differ between machines.
        return sum(uniform(*shape) for _ in range(12)) - 6.0

    ends = np.cumsum(_power_law(D, WORD_OFFSET))
    throws = uniform(N + N_TEST, WORDS_A_POINT)
    words = np.searchsorted(ends[:-1], throws)
    counts = np.zeros((N + N_TEST, D))
    np.add.at(counts, (np.arange(N + N_TEST)[:, None], words), 1)

    h = counts / np.linalg.norm(counts, axis=1, keepdims=True) @ normal(D, P)
    f = h @ (LOADING_SCALE / np.sqrt(P) * normal(K, P)).T
    # E σ(f + b) over the points is the frequency wanted, where f is close to normal and σ to a normal distribution.
    quantiles = np.array([NormalDist().inv_cdf(p) for p in LABELS_A_POINT * _power_law(K, LABEL_OFFSET)])
    b = quantiles * np.sqrt(PROBIT_VARIANCE + f.var(axis=0)) - f.mean(axis=0)
    probabilities = 1 / (1 + np.exp(-(f + b)))
    chances = uniform(N + N_TEST, K)

    neighbours = ends[np.clip(words[..., None] + [-1, 0], 0, D - 2)]
    slack = min(np.abs(throws[..., None] - neighbours).min(), np.abs(chances - probabilities).min())
    return counts, chances < probabilities, slack


def _power_law(size, offset):
    """Return probabilities of `size` things, 1 / (rank + offset) up to a factor."""
    weights = 1 / (np.arange(1, size + 1) + offset)
    return weights / weights.sum()
