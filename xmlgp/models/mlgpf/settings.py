"""Settings of MLGPF, the Gaussian-process factor model."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xmlgp.models import shared_settings
from xmlgp.models.fields import EPOCHS_LIMIT, Method, Settings, setting
from xmlgp.runtime.errors import SettingsError

__all__ = ["MLGPFSettings"]

#: The least default number of latent functions. With 200, once utilities are pooled with neighbours, test points of
#: calls and deps (28,164 and 15,052 labels) lose 0.1 and 0.4 of P@1 and gain 0.6 and 0.3 of PSP@1, for a third more
#: time of the steps and as much more memory; with 50, a generated set with 4,700 labels loses 0.4 of P@1.
FACTORS = 100

#: The largest default number of latent functions, and the labels for each between. A generated set with 134,018 labels
#: of few points gains 2.1 of P@1 and 2.0 of P@5 with 200.
MOST_FACTORS = 200
LABELS_PER_FACTOR = 500

#: Up to so many labels, a minibatch uses all by default. On documents with 592 tags, 200 sampled ones lose 0.6 of P@1.
ALL_SAMPLED = 1000

#: Labels for each sampled one by default, and limits of the number of sampled ones. With 5,000 labels, 300 rank
#: held-out points as well as 1000; with 28,000, test points gain 0.05 of P@1 and lose 0.25 of PSP@1 with 1000 in place
#: of 1900, once utilities are pooled with neighbours.
LABELS_PER_SAMPLED = 15
LEAST_SAMPLED = 300
MOST_SAMPLED = 1000


@dataclass(frozen=True)
class TrainingMethod(Method):
    """One way to train MLGPF, whose class is an `MLGPFMethod`.

    The default number of epochs makes so many stochastic `steps`, but is at least `least_epochs`.
    """

    optimiser: str
    steps: int
    least_epochs: int


#: After 800 steps the ranking of held-out points hardly improves, on five data sets of 5,000 to 22,000 points; in
#: weight space after 600, on Bibtex and on documents with 592 tags. With 168,777 points, 2 epochs rank held-out points
#: as well as 4 or better.
INDUCING = TrainingMethod(
    "xmlgp.models.mlgpf.methods:InducingMethod",
    optimiser="adam",
    steps=800,
    least_epochs=5,
    settings=(
        *("basis_size", "inducing_count", "inducing_start", "inducing_fixed", "ard", "lengthscale", "posterior"),
        *("diagonal", "start", "negatives"),
    ),
)
WEIGHT_SPACE = TrainingMethod(
    "xmlgp.models.mlgpf.methods:WeightSpaceMethod",
    optimiser="adagrad",
    steps=600,
    least_epochs=2,
    settings=("label_sample", "neighbours"),
)

#: The methods, by the inducing inputs.
METHODS = {"subspace": INDUCING, "free": INDUCING, "features": WEIGHT_SPACE}

#: Largest default number of epochs.
MOST_EPOCHS = 60

#: The same in weight space from so many points on. With 12,000 points and 15,052 labels, test points are ranked as well
#: with 12 as with 17, once utilities are pooled with neighbours; with 6 they lose 1.1 of P@1. With 3,900 points they
#: need 60.
MOST_EPOCHS_OF_MANY = 12
MANY_POINTS = 10_000

#: Least number of minibatches in weight space. With few, 60 epochs are too few steps.
LEAST_BATCHES = 10


#: Shares of the epochs after which held-out points are ranked, to end the steps early, with fewer than `MANY_POINTS`.
#: Documents of few words are ranked best after few epochs: later, the latent functions fit words that occur once. More
#: points have so few epochs that these do no harm, and ranking takes the time of an epoch.
CHECKED = (1 / 12, 1 / 6, 1 / 3, 7 / 12)


@dataclass(frozen=True)
class MLGPFSettings(Settings):
    """Settings of an MLGPF model; SettingsError for a value that is not allowed, or values that do not fit."""

    model: ClassVar[str] = "mlgpf"

    weighting: str = shared_settings.weighting()
    inducing: str | None = setting(
        None,
        "Inducing inputs: subspace (Z = A X̃ with a truncated SVD basis X̃), free (Z itself) or features (the unit "
        "vector of each feature, exact for a linear kernel).",
        choices=METHODS,
        preprocess=True,
        if_unset="features for a linear kernel, otherwise free",
    )
    basis_size: int = setting(
        1000, "Basis vectors of the subspace; at most min(N, D) are used.", minimum=1, preprocess=True
    )
    inducing_count: int = shared_settings.inducing_count()
    inducing_start: str | None = setting(
        None,
        "Initial inducing inputs: k-means centroids (kmeans) or random training points (rows).",
        choices=("kmeans", "rows"),
        preprocess=True,
        if_unset="rows with inducing=free and kernel=linear, otherwise kmeans",
    )
    inducing_fixed: bool = setting(False, "Keep the initial inducing inputs instead of optimising them.")
    kernel: str = setting("linear", "Covariance function.", choices=("linear", "se", "se+linear"), preprocess=True)
    ard: bool = setting(True, "Automatic relevance determination: one scale for each basis dimension or feature.")
    lengthscale: float = setting(0.7, "Initial lengthscale ℓ of an se kernel.", above=0)
    posterior: str = setting(
        "shared-diagonal", "Family of q(u_p).", choices=("shared-diagonal", "diagonal", "cholesky")
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
        minimum=1,
        if_unset=f"one for {LABELS_PER_FACTOR} labels, from {FACTORS} to {MOST_FACTORS}",
    )
    label_weights: bool | None = setting(
        None,
        "With inducing=features: weights W of each label on features, in addition to the latent functions: "
        "f = Φ h + b + W x.",
        if_unset="if features are at least as many as labels, or ten times as many as latent functions; never with "
        "other inducing inputs",
    )
    neighbours: bool = setting(
        True,
        "With inducing=features: pool the utilities with those of exact GP regression on the nearest training points, "
        "with the weight that ranks the held-out points best.",
    )
    nodes: int = shared_settings.nodes()
    ranking: str = setting(
        "probability",
        "What `xmlgp predict` ranks labels by: the probability E σ(f), integrated over the posterior (probability), or "
        "the mean of f (utility).",
        choices=("probability", "utility"),
    )
    negatives: int | None = setting(
        None,
        "Sampled negative labels for each point in each step, all if they are half of the labels. With few, use larger "
        "minibatches.",
        minimum=1,
        if_unset="all",
    )
    label_sample: int | None = setting(
        None,
        "With inducing=features: labels sampled for each minibatch. All its points share them as negatives, beside "
        "the labels of its points.",
        minimum=1,
        if_unset=f"all of up to {ALL_SAMPLED} labels, otherwise a fifteenth, from {LEAST_SAMPLED} to {MOST_SAMPLED}",
    )
    optimiser: str | None = setting(
        None,
        "Optimiser.",
        choices=("adam", "adagrad", "adadelta"),
        if_unset="adagrad with inducing=features, otherwise adam",
    )
    learning_rate: float | None = shared_settings.learning_rate()
    epochs: int | None = setting(
        None,
        "Passes over the data.",
        minimum=1,
        maximum=EPOCHS_LIMIT,
        if_unset="enough for 800 steps, between 5 and 60; with inducing=features for 600 steps, between 2 and 60, and "
        f"at most {MOST_EPOCHS_OF_MANY} from {MANY_POINTS} points on; with fewer, less where held-out "
        "points are ranked worse after one twelfth, sixth, third or seven twelfths of them",
    )
    calibration: bool = setting(
        True,
        "Calibrate probabilities on held-out points: 5% of the points, at least 400 (or 10% where that is fewer), at "
        "most 2000. With inducing=features the last sweep trains on them.",
    )
    batch_size: int = shared_settings.batch_size()
    dtype: str = shared_settings.dtype()
    seed: int = shared_settings.seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inducing == "features" and self.kernel != "linear":
            raise SettingsError("inducing=features needs kernel=linear")
        if self.label_weights and (self.inducing not in (None, "features") or self.kernel != "linear"):
            raise SettingsError("label_weights=true needs inducing=features and kernel=linear")

    @property
    def method(self) -> TrainingMethod:
        """The `TrainingMethod` of the inducing inputs; those of settings without a data set are free by default."""
        return METHODS[self.inducing or "free"]

    @property
    def pools_neighbours(self) -> bool:
        """Whether utilities are pooled with the regression on neighbours."""
        return self.method is WEIGHT_SPACE and self.neighbours

    @property
    def start_of_inducing(self) -> str:
        """The method of the initial inducing inputs.

        On held-out points of Bibtex, linear kernels lose 1.5 of P@1 with free centroids, and se kernels gain 1.7.
        """
        return self.inducing_start or ("rows" if self.inducing != "subspace" and self.kernel == "linear" else "kmeans")

    @property
    def factor_count(self) -> int:
        """The number of latent functions, P."""
        return self.factors or FACTORS

    def sampled_labels(self, K: int) -> int:
        """Return the number of labels that are sampled for a minibatch, of K labels."""
        if self.label_sample is not None:
            return self.label_sample
        return max(1, K) if K <= ALL_SAMPLED else min(max(LEAST_SAMPLED, K // LABELS_PER_SAMPLED), MOST_SAMPLED)

    def points_in_batch(self, N: int) -> int:
        """Return the largest number of points in a minibatch of N points: in weight space at most a tenth of them."""
        most = max(1, N // LEAST_BATCHES) if self.method is WEIGHT_SPACE else self.batch_size
        return min(self.batch_size, most)

    def epoch_count(self, N: int) -> int:
        """Return the number of epochs for N points: by default enough for the steps of the method, within limits."""
        enough = round(self.method.steps * self.points_in_batch(N) / max(1, N))
        if self.method is WEIGHT_SPACE and N >= MANY_POINTS:
            enough = min(enough, MOST_EPOCHS_OF_MANY)
        return self.epochs or min(max(self.method.least_epochs, enough), MOST_EPOCHS)

    def checked_epochs(self, N: int) -> frozenset[int]:
        """Return the epochs, counted from 0, before which held-out points are ranked; none if their number is set."""
        if self.epochs or N >= MANY_POINTS or not self.pools_neighbours:
            return frozenset()
        return frozenset(round(share * self.epoch_count(N)) for share in CHECKED) - {0}

    def for_shape(self, N: int, D: int, K: int) -> "MLGPFSettings":
        """Return the settings with the inducing inputs and the number of latent functions for data of this shape."""
        factors = self.factors or min(max(FACTORS, K // LABELS_PER_FACTOR), MOST_FACTORS)
        inducing = self.inducing or ("features" if self.kernel == "linear" else "free")
        return replace(self, inducing=inducing, inducing_start=self.start_of_inducing, factors=factors)

    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect with the inducing inputs; see `Settings.unused`."""
        return dict.fromkeys(self.method.unused(METHODS), f"inducing={self.inducing or 'free'}")

    def preprocess_part(self) -> dict[str, Any]:
        """Return the settings that preprocessing depends on; of the kernel, only whether it has an SE term."""
        return super().preprocess_part() | {"kernel": "se" if "se" in self.kernel else "linear"}
