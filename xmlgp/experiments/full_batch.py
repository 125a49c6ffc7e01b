"""L-BFGS-B on the bound with q(u) left free, of all points at once: what [I] found worse than all else."""

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from xmlgp.errors import NumericalError
from xmlgp.gpc.model import GPC
from xmlgp.runtime.threads import run_parallel
from xmlgp.training.minibatches import make_batch

__all__ = ["FullBatch"]

#: Points of which the bound is computed at a time, each such block by one core.
BLOCK = 4096

#: Iterations and evaluations that are never reached: the clock ends it, or convergence.
ENDLESS = 10**9


class FullBatch:
    """What svi-AdaDelta maximises, from where it starts, maximised by SciPy's L-BFGS-B over m, L and θ together.

    Parameters
    ----------
    coordinates : Coordinates
        Of the N training points, in double precision.
    positive : ndarray of bool, N
    inducing : ndarray, M×D
        Z.
    settings : GPCSettings
    """

    def __init__(self, coordinates, positive, inducing, settings):
        self._bound, start = GPC().uncollapsed(inducing, settings.nodes)
        self._fixed = {name: start.pop(name) for name in ("inducing", "loadings", "bias")}
        self._shapes = {name: value.shape for name, value in start.items()}
        #: What of the factor's elements moves.
        self._lower = np.tril_indices(len(inducing))
        self.start = self._packed(start)
        labels = csr_array(positive[:, None])
        blocks = np.array_split(np.arange(len(positive)), -(-len(positive) // BLOCK))
        # The mean over the blocks is the bound if each counts as all points do.
        self._batches = [make_batch(coordinates, labels, rows)._replace(scale=len(blocks)) for rows in blocks]

    def value_and_gradient(self, x):
        """Return the bound and its gradient.

        Parameters
        ----------
        x : ndarray
            m, the lower triangle of L with the logarithms of its diagonal, and θ, one after another.

        Raises
        ------
        NumericalError
            Where a covariance matrix cannot be factorised, or the bound or a derivative is not finite.
        """
        parameters = self._fixed | self._unpacked(x)
        found = [None] * len(self._batches)

        def fill(number):
            found[number] = self._bound.value_and_gradients(parameters, self._batches[number])

        run_parallel(lambda number=number: fill(number) for number in range(len(found)))
        value = float(np.mean([value for value, _ in found]))
        if not np.isfinite(value):
            raise NumericalError("the bound is not finite")
        return value, np.mean([self._packed(gradients) for _, gradients in found], axis=0)

    def parameters(self, x):
        """Return the parameters of the model, as `GPC.parameter_names` lists them."""
        return {"inducing": self._fixed["inducing"]} | self._unpacked(x)

    def maximise(self, watch):
        """Go on until the time is up or nothing is gained any more; return which, "time" or "converged".

        Parameters
        ----------
        watch : Watch

        Raises
        ------
        NumericalError
            As `value_and_gradient` does.
        """
        iterations, reached = 0, self.start

        def negative(x):
            value, gradient = self.value_and_gradient(x)
            if iterations and watch.over():
                raise _TimeUp
            return -value, -gradient

        def after_iteration(x):
            nonlocal iterations, reached
            iterations, reached = iterations + 1, x.copy()
            if watch.lap(iterations, lambda: self.parameters(reached)):
                raise _TimeUp

        try:
            options = {"maxiter": ENDLESS, "maxfun": ENDLESS}
            minimize(negative, self.start, jac=True, method="L-BFGS-B", callback=after_iteration, options=options)
            ended = "converged"
        except _TimeUp:
            ended = "time"
        watch.finish(iterations, lambda: self.parameters(reached))
        return ended

    def _packed(self, arrays):
        """Return one vector of all that moves."""
        flat = {name: arrays[name].ravel() for name in self._shapes}
        flat["posterior.factor"] = arrays["posterior.factor"][0][self._lower]
        return np.concatenate(list(flat.values()))

    def _unpacked(self, x):
        arrays, place = {}, 0
        for name, shape in self._shapes.items():
            size = len(self._lower[0]) if name == "posterior.factor" else int(np.prod(shape))
            part, place = x[place : place + size], place + size
            if name == "posterior.factor":
                arrays[name] = np.zeros(shape)
                arrays[name][0][self._lower] = part
            else:
                arrays[name] = part.reshape(shape).copy()
        return arrays


class _TimeUp(Exception):
    """Leads out of SciPy's loop."""
