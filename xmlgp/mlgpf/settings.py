"""Settings of MLGPF, the Gaussian-process factor model."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.settings import shared
from xmlgp.settings.fields import EPOCHS_LIMIT, Settings, setting

__all__ = ["MLGPFSettings"]


@dataclass(frozen=True)
class MLGPFSettings(Settings):
    """Settings of an MLGPF model.

    Raises
    ------
    SettingsError
        For a value outside its limits, with the name and what is allowed.
    """

    model: ClassVar[str] = "mlgpf"

    weighting: str = shared.weighting()
    inducing: str = setting(
        "free",
        "Inducing inputs: subspace (Z = A X̃ in a truncated SVD basis X̃) or free (Z itself).",
        choices=("subspace", "free"),
        preprocess=True,
    )
    basis_size: int = setting(
        1000, "Basis vectors of the subspace; at most min(N, D) are used.", symbol="R", minimum=1, preprocess=True
    )
    inducing_count: int = shared.inducing_count()
    inducing_start: str = setting(
        "rows",
        "Inducing inputs start from k-means centroids (kmeans) or random training points (rows).",
        choices=("kmeans", "rows"),
        preprocess=True,
    )
    inducing_fixed: bool = setting(False, "Keep the inducing inputs at their start instead of optimising them.")
    kernel: str = setting("linear", "Covariance function.", choices=("linear", "se", "se+linear"))
    ard: bool = setting(True, "Automatic relevance determination: one weight a basis dimension or feature.")
    lengthscale: float = setting(0.7, "Start of the lengthscale ℓ of an se kernel.", above=0)
    posterior: str = setting(
        "shared-diagonal",
        "Family of q(u_p).",
        choices=("shared-diagonal", "diagonal", "cholesky"),
    )
    diagonal: float = setting(1.0, "Start of the diagonal of Σ of q(u_p).", above=0)
    start: str = setting(
        "newton",
        "Start of the loadings and of the means of q(u_p): newton (a damped Newton step for every label, its best "
        "approximation of rank P) or random.",
        choices=("newton", "random"),
    )
    factors: int = setting(100, "Latent functions.", symbol="P", minimum=1)
    label_weights: bool | None = setting(
        None,
        "Weights W of each label on its own features, beside the latent functions: f = Φ h + b + W x; when not given "
        "where there are ten times as many features as latent functions.",
        optional=True,
    )
    regression_points: int = setting(
        25_000,
        "Where there are at most so many training points, and 5000 labels, utilities are pooled with those of Gaussian "
        "process regression on all points, if held-out points, where there are any, are ranked better by it; 0 for "
        "never.",
        minimum=0,
    )
    expectations: str = setting(
        "quadrature",
        "Expectations of the log likelihood in training: by Gauss–Hermite quadrature, or in closed form by the bound "
        "of Jaakkola and Jordan (jj) or a Taylor series of second order around the mean (taylor), which is no bound.",
        choices=("quadrature", "jj", "taylor"),
    )
    nodes: int = shared.nodes()
    negatives: int | None = setting(
        None,
        "Sampled negative labels a point in each step; all when not given. With few, larger minibatches do better.",
        minimum=1,
        optional=True,
    )
    sampling: str = setting(
        "frequency",
        "How negatives are sampled: frequency (half of them in proportion to the frequencies of labels, the others "
        "uniformly) or uniform.",
        choices=("frequency", "uniform"),
    )
    optimiser: str = setting("adam", "Optimiser.", choices=("adam", "adadelta"))
    learning_rate: float | None = shared.learning_rate()
    schedule: str = setting(
        "linear",
        "Learning rate over time: constant, or linear (constant for half of the steps, then falling to zero).",
        choices=("constant", "linear"),
    )
    epochs: int | None = setting(
        None,
        "Passes over the data, at most; when not given as many as make 800 steps, and from 5 to 60.",
        minimum=1,
        maximum=EPOCHS_LIMIT,
        optional=True,
    )
    validation: float = setting(
        0.1,
        "Share of the training points that training is stopped by; 0 to train on all to the last epoch.",
        minimum=0,
        maximum=0.5,
    )
    patience: int = setting(10, "Epochs in a row without better nDCG@5 of these points that end training.", minimum=1)
    refit: bool = setting(
        True, "Then train anew on all points, for as many epochs as were best, in place of keeping the best parameters."
    )
    batch_size: int = shared.batch_size()
    batch_size_first: int | None = setting(
        None,
        "Points a minibatch of the first epoch, growing to the batch size by the last; when not given all are alike.",
        minimum=1,
        optional=True,
    )
    dtype: str = shared.dtype()
    seed: int = shared.seed()
