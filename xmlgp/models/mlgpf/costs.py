"""How long each phase of the training of MLGPF takes, in seconds on two cores.

The numbers fit data sets of 4,880 to 168,777 points, 500 to 51,801 features and 159 to 28,164 labels, with and without
384 dense features. Only their ratios matter once some steps are made (`xmlgp.training.time_left`).
"""

from __future__ import annotations

from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.mlgpf.sweep import MOST_SCORED, sweep_count

__all__ = ["expected_costs"]


def expected_costs(
    settings: MLGPFSettings, features: Features, labels: csr_array, H: int
) -> dict[str, tuple[float, float]]:
    """Return the expected costs of the phases of training, given X, N×D, and Y, N×K, of which H points are held out."""
    N, K = labels.shape
    P = settings.factor_count
    nnz = features.sparse.nnz
    used = min(K, 2 * settings.sampled_labels(K))
    point = (2.5e-3 + 1e-9 * P * features.D) / settings.points_in_batch(N) + P * (7e-11 * used + 5.5e-10 * nnz / N)
    is_swept = sweep_count(settings, N, features.D, K) > 0
    listing = 2.2e-11 * K * P if N * K <= MOST_SCORED else 7e-5
    updating = is_swept * 8e-7 * nnz
    epochs = settings.epoch_count(N)
    # With one kernel of four.
    checking = H * (5e-4 + 4e-6 * features.width + 2e-8 * K) * len(settings.checked_epochs(N))
    return {
        "steps": (0.0, epochs * N * point + checking),
        "weights": (listing * N, 2 * updating),
        "calibration": (H * (2.5e-3 + 3.7e-5 * features.width + 2e-8 * K), 0.0),
        "last weights": (0.0, updating),
    }
