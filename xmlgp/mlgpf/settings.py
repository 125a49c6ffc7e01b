"""Settings of MLGPF, the Gaussian-process factor model."""

from dataclasses import dataclass, replace
from typing import ClassVar

from xmlgp.errors import ClashError
from xmlgp.settings import shared
from xmlgp.settings.fields import EPOCHS_LIMIT, Settings, setting
from xmlgp.training.schedules import default_epochs

__all__ = ["MLGPFSettings"]

#: Settings without effect in weight space.
UNUSED_WITH_FEATURES = (
    *("basis_size", "inducing_count", "inducing_start", "inducing_fixed", "ard", "lengthscale", "posterior"),
    *("diagonal", "start", "validation", "patience", "refit", "negatives", "sampling", "regression_points"),
)

#: Settings without effect if no points are held out, outside of weight space.
UNUSED_WITHOUT_VALIDATION = ("patience", "refit", "calibration")

#: Default numbers of latent functions: in weight space a step costs less.
FACTORS, FACTORS_IN_WEIGHT_SPACE = 100, 200

#: Steps after which the ranking of held-out points hardly improves, on five data sets of 5,000 to 22,000 points, and
#: the smallest default number of epochs; the same in weight space.
STEPS, LEAST_EPOCHS = 800, 5
STEPS_IN_WEIGHT_SPACE, LEAST_EPOCHS_IN_WEIGHT_SPACE = 300, 8

#: Pairs of points and labels beyond which training is in weight space by default: from about here on a step over all
#: labels is what takes the time.
PAIRS_LIMIT = 100_000_000


@dataclass(frozen=True)
class MLGPFSettings(Settings):
    """Settings of an MLGPF model.

    Raises
    ------
    SettingsError
        For a value that is not allowed, with the name and the limits.
    """

    model: ClassVar[str] = "mlgpf"

    weighting: str = shared.weighting()
    inducing: str | None = setting(
        None,
        "Inducing inputs: subspace (Z = A X̃ with a truncated SVD basis X̃), free (Z itself) or features (the unit "
        "vector of each feature, exact for a linear kernel).",
        choices=("subspace", "free", "features"),
        preprocess=True,
        if_unset="features for a linear kernel and more than 100 million pairs of points and labels, otherwise free",
    )
    basis_size: int = setting(
        1000, "Basis vectors of the subspace; at most min(N, D) are used.", symbol="R", minimum=1, preprocess=True
    )
    inducing_count: int = shared.inducing_count()
    inducing_start: str = setting(
        "rows",
        "Initial inducing inputs: k-means centroids (kmeans) or random training points (rows).",
        choices=("kmeans", "rows"),
        preprocess=True,
    )
    inducing_fixed: bool = setting(False, "Keep the initial inducing inputs instead of optimising them.")
    kernel: str = setting("linear", "Covariance function.", choices=("linear", "se", "se+linear"), preprocess=True)
    ard: bool = setting(True, "Automatic relevance determination: one scale for each basis dimension or feature.")
    lengthscale: float = setting(0.7, "Initial lengthscale ℓ of an se kernel.", above=0)
    posterior: str = setting(
        "shared-diagonal",
        "Family of q(u_p).",
        choices=("shared-diagonal", "diagonal", "cholesky"),
    )
    diagonal: float = setting(1.0, "Initial diagonal of Σ of q(u_p).", above=0)
    start: str = setting(
        "newton",
        "Initial loadings and means of q(u_p): newton (the best approximation of rank P of a damped Newton step for "
        "each label) or random.",
        choices=("newton", "random"),
    )
    factors: int | None = setting(
        None,
        "Latent functions.",
        symbol="P",
        minimum=1,
        if_unset=f"{FACTORS_IN_WEIGHT_SPACE} with --inducing features, otherwise {FACTORS}",
    )
    label_weights: bool | None = setting(
        None,
        "Weights W of each label on features, in addition to the latent functions: f = Φ h + b + W x.",
        if_unset="if there are at least ten times as many features as latent functions",
    )
    regression_points: int = setting(
        25_000,
        "With at most this many training points, and at most 5000 labels, pool the utilities with those of exact GP "
        "regression on all points, unless that ranks the held-out points worse; 0 for never.",
        minimum=0,
    )
    expectations: str = setting(
        "quadrature",
        "Expectations of the log likelihood in training: Gauss–Hermite quadrature, or in closed form the bound of "
        "Jaakkola and Jordan (jj) or a second-order Taylor series around the mean (taylor; not a bound).",
        choices=("quadrature", "jj", "taylor"),
    )
    nodes: int = shared.nodes()
    ranking: str = setting(
        "probability",
        "What labels are ranked by, for early stopping and by `xmlgp predict`: the probability E σ(f), integrated over "
        "the posterior (probability), or the mean of f (utility).",
        choices=("probability", "utility"),
    )
    negatives: int | None = setting(
        None,
        "Sampled negative labels for each point in each step. With few, use larger minibatches.",
        minimum=1,
        if_unset="all",
    )
    sampling: str = setting(
        "frequency",
        "How negatives are sampled: frequency (half of them in proportion to the label frequencies, half uniformly) or "
        "uniform.",
        choices=("frequency", "uniform"),
    )
    label_sample: int = setting(
        1000,
        "With --inducing features: labels sampled for each minibatch. All its points share them as negatives, beside "
        "the labels of its points.",
        minimum=1,
    )
    optimiser: str | None = setting(
        None,
        "Optimiser.",
        choices=("adam", "adagrad", "adadelta"),
        if_unset="adagrad with --inducing features, otherwise adam",
    )
    learning_rate: float | None = shared.learning_rate()
    schedule: str = setting(
        "linear",
        "Learning rate schedule: constant, or linear (constant for half of the steps, then linear to zero).",
        choices=("constant", "linear"),
    )
    epochs: int | None = setting(
        None,
        "Most passes over the data.",
        minimum=1,
        maximum=EPOCHS_LIMIT,
        if_unset="enough for 800 steps, between 5 and 60; with --inducing features for 300 steps, between 8 and 60",
    )
    validation: float = setting(
        0.1,
        "Share of the training points that is held out for early stopping; 0 trains on all points to the last epoch.",
        minimum=0,
        maximum=0.5,
    )
    patience: int = setting(
        10, "Early stopping after this many epochs without a better nDCG@5 of the held-out points.", minimum=1
    )
    refit: bool = setting(
        True,
        "Train twice: for half of the epochs without the held-out points, then on all points, for the best number of "
        "epochs or, if the last ones ranked best, for all. Otherwise train once, and keep the best parameters.",
    )
    calibration: bool = setting(
        True,
        "Calibrate probabilities on points that are held out: the same as for early stopping; with --inducing features "
        "5% of the points, at most 2000, which only the last sweep trains on.",
    )
    batch_size: int = shared.batch_size()
    batch_size_first: int | None = setting(
        None,
        "Points in a minibatch of the first epoch, growing to the batch size by the last.",
        minimum=1,
        if_unset="the batch size",
    )
    dtype: str = shared.dtype()
    seed: int = shared.seed()

    def __post_init__(self):
        super().__post_init__()
        if self.in_weight_space and self.kernel != "linear":
            raise ClashError("{inducing} features needs {kernel} linear", ("inducing", "kernel"))

    @property
    def in_weight_space(self):
        """Whether the inducing inputs are the unit vectors, so that latent functions have a weight for each feature."""
        return self.inducing == "features"

    @property
    def factor_count(self):
        """The number of latent functions, P."""
        return self.factors or (FACTORS_IN_WEIGHT_SPACE if self.in_weight_space else FACTORS)

    def epoch_count(self, N):
        """Return the number of epochs for N points, with early stopping the greatest."""
        steps, least = STEPS, LEAST_EPOCHS
        if self.in_weight_space:
            steps, least = STEPS_IN_WEIGHT_SPACE, LEAST_EPOCHS_IN_WEIGHT_SPACE
        return self.epochs or default_epochs(N, self.batch_size, steps, least)

    def for_shape(self, N, D, K):
        """Return the settings with the inducing inputs that are the default for a data set of this shape.

        Parameters
        ----------
        N, D, K : int
        """
        if self.inducing is not None:
            return self
        many = self.kernel == "linear" and N * K > PAIRS_LIMIT
        return replace(self, inducing="features" if many else "free")

    def unused(self):
        """Return the settings that have no effect with the inducing inputs or no validation; see `Settings.unused`."""
        names = UNUSED_WITH_FEATURES if self.in_weight_space else ("label_sample",)
        unused = dict.fromkeys(names, f"--inducing {self.inducing or 'free'}")
        if not self.in_weight_space and not self.validation:
            unused |= dict.fromkeys(UNUSED_WITHOUT_VALIDATION, "--validation 0")
        return unused

    def preprocess_part(self):
        """Return the settings that preprocessing depends on; of the kernel, only whether it has an SE term."""
        return super().preprocess_part() | {"kernel": "se" if "se" in self.kernel else "linear"}
