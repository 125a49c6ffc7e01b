"""Variational posteriors q(u_p) of the inducing variables of the P latent functions, without state.

Each has `initial` parameters, in the flat mapping; `prepare`, what the moments at any points need, given K_Z; `moments`
of q(h_p(x_i)), whose variances are B×P, or B×1 if all latent functions share them; `forward` and `backward` of the
moments and the sum of the KL divergences; and `precondition`, ascent directions in place of some gradients. The mean at
points is K_BZ α for dual weights `alpha`, M×P.
"""

from typing import TypeAlias

from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "Posterior", "SharedDiagonal"]

Posterior: TypeAlias = SharedDiagonal | Diagonal | Cholesky

#: The posteriors, by the name that settings use.
POSTERIORS: dict[str, Posterior] = {"shared-diagonal": SharedDiagonal(), "diagonal": Diagonal(), "cholesky": Cholesky()}
