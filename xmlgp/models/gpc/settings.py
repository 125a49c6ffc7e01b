"""Settings of GPC, Gaussian-process classification of points into two classes."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.models import shared_settings
from xmlgp.models.fields import InferenceMethod, InferenceSettings, inference_setting, iterations_setting, setting

__all__ = ["INFERENCES", "GPCSettings"]

#: The inference methods, by the value of the setting `inference`.
INFERENCES = {
    "svi-adadelta": InferenceMethod(
        "xmlgp.models.gpc.inference:SVIAdaDelta",
        "stochastic gradients with AdaDelta",
        iterations=100,
        settings=("batch_size", "learning_rate"),
    ),
    "vi-jj": InferenceMethod(
        "xmlgp.models.gpc.inference:JJ",
        "closed-form updates of the Jaakkola–Jordan bound, alternating with a few L-BFGS steps for the kernel",
        iterations=100,
    ),
    "vi-jj-full": InferenceMethod(
        "xmlgp.models.gpc.inference:Full", "L-BFGS on all parameters of this bound", iterations=40
    ),
    "vi-jj-hybrid": InferenceMethod(
        "xmlgp.models.gpc.inference:Hybrid", "the updates, then L-BFGS on all parameters", iterations=100
    ),
    "vi-taylor": InferenceMethod(
        "xmlgp.models.gpc.inference:TaylorExpansion",
        "as vi-jj, with a quadratic expansion of the likelihood in place of the bound; the fastest",
        iterations=100,
    ),
}


@dataclass(frozen=True)
class GPCSettings(InferenceSettings):
    """Settings of a GPC model.

    Double precision, and free inducing inputs at k-means centroids, are fixed for this model.
    """

    model: ClassVar[str] = "gpc"
    inferences: ClassVar[dict[str, InferenceMethod]] = INFERENCES
    dtype: ClassVar[str] = "float64"
    inducing: ClassVar[str] = "free"
    start_of_inducing: ClassVar[str] = "kmeans"

    standardise: bool = setting(
        True,
        "Shift and scale each feature to mean 0 and variance 1 over the training points. Sparse features are only "
        "scaled, because the kernel does not change with a shift.",
        preprocess=True,
    )
    inference: str = inference_setting("vi-taylor", INFERENCES)
    inducing_count: int = shared_settings.inducing_count()
    iterations: int | None = iterations_setting(
        INFERENCES, "at most; all methods but svi-adadelta stop when they have converged"
    )
    batch_size: int = shared_settings.batch_size()
    learning_rate: float | None = shared_settings.learning_rate()
    nodes: int = shared_settings.nodes()
    seed: int = shared_settings.seed()

    @property
    def weighting(self) -> str:
        """The feature weighting: "standard" or "none"."""
        return "standard" if self.standardise else "none"
