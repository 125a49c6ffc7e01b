"""The KL divergence of Gaussians against SciPy's densities; those of each posterior are in `test_posteriors.py`."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from xmlgp.gp.divergences import gauss_kl


@pytest.mark.parametrize("seed", range(3))
def test_gauss_kl_is_the_mean_difference_of_log_densities(seed):
    random = np.random.default_rng(seed)
    M = 3
    roots = random.normal(size=(2, M, M)) + 2 * np.eye(M)
    S, K = roots @ roots.transpose(0, 2, 1)
    m = random.normal(size=M)
    q, p = multivariate_normal(m, S), multivariate_normal(np.zeros(M), K)
    samples = q.rvs(50_000, random_state=seed)
    differences = q.logpdf(samples) - p.logpdf(samples)
    inverse = np.linalg.inv(K)
    log_ratio = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    result = gauss_kl(m @ inverse @ m, np.trace(inverse @ S), log_ratio, M)
    assert result == pytest.approx(differences.mean(), abs=5 * differences.std() / len(samples) ** 0.5)
