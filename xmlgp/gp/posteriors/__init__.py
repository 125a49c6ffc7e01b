"""Variational posteriors q(u_p) of the inducing variables of the P latent functions (`Posterior`)."""

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Parameters
from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "DualPosterior", "Posterior", "SharedDiagonal"]

Prepared = TypeVar("Prepared")
Tape = TypeVar("Tape")


class Posterior(Protocol[Prepared, Tape]):
    """A family of posteriors, without state; parameters come from the flat mapping.

    Those of `POSTERIORS` are `DualPosterior`, and also have `initial` and `mean_from_alpha`. Variances are B×P, or B×1
    if all latent functions share them.
    """

    parameter_names: tuple[str, str]
    #: Their shapes (`xmlgp.linear_algebra.array_groups`).
    shapes: tuple[str, str]
    #: Whether `prepare` uses all cores.
    prepare_is_parallel: bool

    def prepare(self, parameters: Parameters, K_Z: NDArray[np.floating]) -> Prepared:
        """Return what the moments at any points need; raise NumericalError if K_Z cannot be factorised."""

    def moments(
        self, prepared: Prepared, K_BZ: NDArray[np.floating], K_diag: NDArray[np.floating]
    ) -> tuple[Moments, object]:
        """Return the moments of q(h_p(x_i)), and products that the gradients need."""

    def forward(self, prepared: Prepared, covariances: Covariances) -> tuple[Moments, np.floating, Tape]:
        """Return the moments at a minibatch, the sum of the KL divergences, and a tape."""

    def backward(self, tape: Tape, d_moments: Moments) -> tuple[Covariances, dict[str, NDArray[np.floating]]]:
        """Return the gradients of the bound, in which the divergences count −1, by covariances and by parameters."""

    def precondition(self, tape: Tape, gradients: dict[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
        """Return ascent directions in place of some gradients."""


class DualPosterior(Posterior[Prepared, Tape], Protocol[Prepared, Tape]):
    """A posterior whose mean at points is K_BZ α, for dual weights α, M×P."""

    def alpha(self, prepared: Prepared) -> NDArray[np.floating]:
        """Return α."""


#: The posteriors, by the name that settings use.
POSTERIORS: dict[str, SharedDiagonal | Diagonal | Cholesky] = {
    "shared-diagonal": SharedDiagonal(),
    "diagonal": Diagonal(),
    "cholesky": Cholesky(),
}
