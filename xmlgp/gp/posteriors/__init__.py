"""Variational posteriors q(u_p) of the inducing variables of the P latent functions.

Each posterior is a class without state; parameters come from the flat mapping. It has

- `initial(M, P, diagonal, random, dtype)`: initial parameters by name, with Σ or S_p = `diagonal` I and small random
  means; NumericalError if the diagonal is outside the limits of `xmlgp.gp.log_parameters`,
- `prepare(parameters, K_Z)`: what the moments at any points need; NumericalError if K_Z cannot be factorised,
- `moments(prepared, K_BZ, K_diag)`: the `Moments` of q(h_p(x_i)), and products that the gradients need,
- `forward(prepared, covariances)`: the moments at a minibatch, the sum of the KL divergences, and a tape,
- `backward(tape, d_moments)`: the gradients of the bound, in which the divergences count −1, with respect to the
  covariances (`Covariances`) and, by name, the parameters,
- `precondition(tape, gradients)`: ascent directions in place of some gradients,
- `alpha(prepared)`: the dual weights α, M×P, with which the mean is K_BZ α, and `mean_from_alpha(alpha, K_Z)`, the
  first of the parameters for given α,
- `prepare_is_parallel`: whether `prepare` uses all cores.

Variances are B×P, or B×1 if all latent functions share them.
"""

from xmlgp.gp.posteriors.cholesky import Cholesky
from xmlgp.gp.posteriors.diagonal import Diagonal, SharedDiagonal

__all__ = ["POSTERIORS", "Cholesky", "Diagonal", "SharedDiagonal"]

#: The posteriors, by the name that settings use.
POSTERIORS = {posterior.name: posterior for posterior in (SharedDiagonal(), Diagonal(), Cholesky())}
