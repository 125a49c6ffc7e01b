"""Variational posteriors q(u_p) of the inducing variables of the P latent functions (`Posterior`)."""

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.parameters import Parameters
from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "Posterior", "SharedDiagonal"]

Prepared = TypeVar("Prepared")
Tape = TypeVar("Tape")


class Posterior(Protocol[Prepared, Tape]):
    """A family of posteriors, without state; parameters come from the flat mapping.

    Variances are B×P, or B×1 if all latent functions share them.
    """

    parameter_names: tuple[str, str]
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


class InitialisedPosterior(Posterior[Prepared, Tape], Protocol[Prepared, Tape]):
    """A posterior that training can start from."""

    def initial(
        self, M: int, P: int, diagonal: float, random: np.random.Generator, dtype: DTypeLike
    ) -> dict[str, NDArray[np.floating]]:
        """Return initial parameters by name, with Σ or S_p = `diagonal` I and small random means.

        NumericalError is raised if the diagonal is outside the limits of `xmlgp.gp.log_parameters`.
        """

    def alpha(self, prepared: Prepared) -> NDArray[np.floating]:
        """Return the dual weights α, M×P, with which the mean is K_BZ α."""

    def mean_from_alpha(self, alpha: NDArray[np.floating], K_Z: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the first of the parameters for given α."""


#: The posteriors, by the name that settings use.
POSTERIORS: dict[str, InitialisedPosterior[Any, Any]] = {
    "shared-diagonal": SharedDiagonal(),
    "diagonal": Diagonal(),
    "cholesky": Cholesky(),
}
