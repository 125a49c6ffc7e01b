"""Variational posteriors q(u_p) of the inducing variables of the P latent functions.

Each posterior is a class without state; parameters come from the flat mapping. It has

- `initial`: initial parameters,
- `prepare`: the factorisations of K_Z, for any number of points,
- `moments`: mean and variance of q(h_p(x_i)), the conditional at points,
- `forward`: these moments for a minibatch, the sum of the KL divergences, and a tape,
- `backward`: the gradients with respect to the covariances and the parameters,
- `precondition`: ascent directions in place of some gradients,
- `alpha`: the dual weights α with which the mean is K_BZ α, and `mean_from_alpha`, its inverse.

Variances are B×P, or B×1 if all latent functions share them.
"""

from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import SharedDiagonal
from xmlgp.gp.posteriors.unwhitened import Unwhitened

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "Moments", "SharedDiagonal", "Unwhitened"]

#: The posteriors, by the name that settings use. `Unwhitened` is that of GPC.
POSTERIORS = {posterior.name: posterior for posterior in (SharedDiagonal(), Diagonal(), Cholesky())}
