"""Settings of GPC, Gaussian-process classification of points into two classes."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.settings import shared
from xmlgp.settings.fields import Settings, setting

__all__ = ["GPCSettings"]

#: Iterations where none are asked for, by inference.
USUAL_ITERATIONS = {"svi-adadelta": 100, "vi-jj": 100, "vi-jj-full": 40, "vi-jj-hybrid": 100, "vi-taylor": 100}


@dataclass(frozen=True)
class GPCSettings(Settings):
    """Settings of a GPC model.

    Attributes
    ----------
    dtype, inducing, inducing_start : str
        What other models leave to the user: double precision, free inducing inputs that start from k-means centroids.

    Raises
    ------
    SettingsError
        For a value outside its limits, with the name and what is allowed.
    """

    model: ClassVar[str] = "gpc"
    only_of: ClassVar[dict] = {"batch_size": ("svi-adadelta",), "learning_rate": ("svi-adadelta",)}
    dtype: ClassVar[str] = "float64"
    inducing: ClassVar[str] = "free"
    inducing_start: ClassVar[str] = "kmeans"

    standardise: bool = setting(
        True,
        "Shift and scale each feature to mean 0 and variance 1 over the training points; only scale it where features "
        "are sparse, for the kernel does not change with a shift.",
        preprocess=True,
    )
    inference: str = setting(
        "vi-taylor",
        "Inference by svi-adadelta (stochastic gradient steps by AdaDelta in minibatches), vi-jj (closed-form updates "
        "of the Jaakkola–Jordan bound in turn with a few L-BFGS steps for the kernel), vi-jj-full (L-BFGS on all that "
        "this bound depends on), vi-jj-hybrid (the updates, then L-BFGS on all) or vi-taylor (as vi-jj, with a "
        "quadratic expansion of the likelihood in place of that bound: the fastest).",
        choices=("svi-adadelta", "vi-jj", "vi-jj-full", "vi-jj-hybrid", "vi-taylor"),
    )
    inducing_count: int = shared.inducing_count()
    iterations: int | None = shared.iterations(
        USUAL_ITERATIONS,
        "at most, of one pass over the data or a few each; all but svi-adadelta end earlier, where they have converged",
    )
    batch_size: int = shared.batch_size()
    learning_rate: float | None = shared.learning_rate()
    nodes: int = shared.nodes()
    seed: int = shared.seed()

    @property
    def weighting(self):
        """What is done to features: "standard", or "none"."""
        return "standard" if self.standardise else "none"

    @property
    def passes(self):
        """Iterations at most."""
        return self.iterations or USUAL_ITERATIONS[self.inference]

    def preprocess_part(self):
        """Return the settings that preprocessing depends on, with those that are not left to the user."""
        fixed = {name: getattr(self, name) for name in ("weighting", "inducing", "inducing_start")}
        return super().preprocess_part() | fixed
