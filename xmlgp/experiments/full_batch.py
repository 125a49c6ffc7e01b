"""L-BFGS-B over all points at once: the bound with q(u) as a free parameter, the baseline of [I] that did worst."""

import math

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from xmlgp.errors import NumericalError
from xmlgp.gpc.model import uncollapsed_bound
from xmlgp.runtime.threads import run_parallel
from xmlgp.training.minibatches import make_batch

__all__ = ["FullBatch"]

#: Points of which one core computes the bound at a time.
BLOCK = 4096

#: A limit of iterations and of evaluations that is never reached: time ends the training, or convergence.
NO_LIMIT = 10**9


class FullBatch:
    """The bound and the start of svi-AdaDelta, maximised by SciPy's L-BFGS-B over m, L and θ together.

    Source: [I] (11), and its section on experiments, where it is the worst of the methods.
    """

    def __init__(self, coordinates, positive, inducing, settings):
        self._bound, start = uncollapsed_bound(inducing, settings.nodes)
        self._fixed = {name: start.pop(name) for name in ("inducing", "loadings", "bias")}
        self._shapes = {name: value.shape for name, value in start.items()}
        #: Whether an element is a parameter; those above the diagonal of the factor are not.
        ones = {name: np.ones(shape, bool) for name, shape in self._shapes.items()}
        ones["posterior.factor"] = np.tril(ones["posterior.factor"])
        self._free = np.concatenate([array.ravel() for array in ones.values()])
        self.start = self._packed(start)
        labels = csr_array(positive[:, None])
        blocks = np.array_split(np.arange(len(positive)), -(-len(positive) // BLOCK))
        # Each block is scaled to all points, so the mean over the blocks is the bound.
        self._batches = [make_batch(coordinates, labels, rows)._replace(scale=len(blocks)) for rows in blocks]

    def value_and_gradient(self, x):
        """Return the bound and its gradient."""
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
        """Return the parameters of the model by name."""
        return {"inducing": self._fixed["inducing"]} | self._unpacked(x)

    def maximise(self, stopwatch):
        """Maximise the bound until the time limit or until it converges; return which, "time" or "converged"."""
        iterations, current = 0, self.start

        def negative(x):
            value, gradient = self.value_and_gradient(x)
            if iterations and stopwatch.over():
                raise _TimeUp
            return -value, -gradient

        def after_iteration(x):
            nonlocal iterations, current
            iterations, current = iterations + 1, x.copy()
            if stopwatch.lap(iterations, lambda: self.parameters(current)):
                raise _TimeUp

        try:
            options = {"maxiter": NO_LIMIT, "maxfun": NO_LIMIT}
            minimize(negative, self.start, jac=True, method="L-BFGS-B", callback=after_iteration, options=options)
            ended = "converged"
        except _TimeUp:
            ended = "time"
        stopwatch.finish(iterations, lambda: self.parameters(current))
        return ended

    def _packed(self, arrays):
        """Return the parameters of arrays as one vector."""
        return np.concatenate([arrays[name].ravel() for name in self._shapes])[self._free]

    def _unpacked(self, x):
        """Return the arrays of a vector."""
        whole = np.zeros(len(self._free))
        whole[self._free] = x
        parts = np.split(whole, np.cumsum([math.prod(shape) for shape in self._shapes.values()])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}


class _TimeUp(Exception):
    """Ends SciPy's loop."""
