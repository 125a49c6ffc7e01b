"""Settings of GPC, Gaussian-process classification of points into two classes."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.settings import shared
from xmlgp.settings.fields import Settings, setting

__all__ = ["GPCSettings"]

#: Default number of iterations, by inference method.
USUAL_ITERATIONS = {"svi-adadelta": 100, "vi-jj": 100, "vi-jj-full": 40, "vi-jj-hybrid": 100, "vi-taylor": 100}


@dataclass(frozen=True)
class GPCSettings(Settings):
    """Settings of a GPC model.

    Attributes
    ----------
    dtype, inducing, inducing_start : str
        Fixed for this model: double precision, and free inducing inputs at k-means centroids.

    Raises
    ------
    SettingsError
        For a value that is not allowed, with the name and the limits.
    """

    model: ClassVar[str] = "gpc"
    only_of: ClassVar[dict] = {"batch_size": ("svi-adadelta",), "learning_rate": ("svi-adadelta",)}
    dtype: ClassVar[str] = "float64"
    inducing: ClassVar[str] = "free"
    inducing_start: ClassVar[str] = "kmeans"

    standardise: bool = setting(
        True,
        "Shift and scale each feature to mean 0 and variance 1 over the training points. Sparse features are only "
        "scaled, because the kernel does not change with a shift.",
        preprocess=True,
    )
    inference: str = setting(
        "vi-taylor",
        "Inference method: svi-adadelta (stochastic gradients with AdaDelta), vi-jj (closed-form updates of the "
        "Jaakkola–Jordan bound, alternating with a few L-BFGS steps for the kernel), vi-jj-full (L-BFGS on all "
        "parameters of this bound), vi-jj-hybrid (the updates, then L-BFGS on all parameters) or vi-taylor (as vi-jj, "
        "with a quadratic expansion of the likelihood in place of the bound; the fastest).",
        choices=("svi-adadelta", "vi-jj", "vi-jj-full", "vi-jj-hybrid", "vi-taylor"),
    )
    inducing_count: int = shared.inducing_count()
    iterations: int | None = shared.iterations(
        USUAL_ITERATIONS,
        "at most; all methods but svi-adadelta stop when they have converged",
    )
    batch_size: int = shared.batch_size()
    learning_rate: float | None = shared.learning_rate()
    nodes: int = shared.nodes()
    seed: int = shared.seed()

    @property
    def weighting(self):
        """The feature weighting: "standard" or "none"."""
        return "standard" if self.standardise else "none"

    @property
    def passes(self):
        """Largest number of iterations."""
        return self.iterations or USUAL_ITERATIONS[self.inference]

    def preprocess_part(self):
        """Return the settings that preprocessing depends on, with the fixed ones."""
        fixed = {name: getattr(self, name) for name in ("weighting", "inducing", "inducing_start")}
        return super().preprocess_part() | fixed
