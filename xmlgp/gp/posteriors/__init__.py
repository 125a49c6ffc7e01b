"""Variational posteriors q(u_p) over the inducing variables of the P latent functions.

Each posterior has `initial`, its parameters to start from; `forward`, the moments of q(h_p(x_i)) for a
minibatch and the sum of the KL divergences; and `backward`, their gradients. Variances come as B×P, or B×1
where all latent functions share them.
"""

from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import SharedDiagonal

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "Moments", "SharedDiagonal"]

POSTERIORS = {posterior.name: posterior for posterior in (SharedDiagonal(), Diagonal(), Cholesky())}
