"""The Kullback–Leibler divergence from the prior, by the parts that each posterior computes in its own way."""

__all__ = ["divergence_from_prior"]


def divergence_from_prior(mahalanobis, trace, log_ratio, dimension):
    """Return KL[N(m, S) ‖ N(0, K)] = ½ [mᵀ K⁻¹ m + tr(K⁻¹ S) + log|K| − log|S| − M] ([L] (13)).

    Parameters
    ----------
    mahalanobis : float
        mᵀ K⁻¹ m, or the sum of some.
    trace : float
        tr(K⁻¹ S), or the sum of some.
    log_ratio : float
        log|K| − log|S|, or the sum of some.
    dimension : int
        M, or the sum of some.
    """
    return 0.5 * (mahalanobis + trace + log_ratio - dimension)
