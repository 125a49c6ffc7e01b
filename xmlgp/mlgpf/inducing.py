"""The method of MLGPF with inducing inputs, in a subspace or free: stochastic steps for all parameters."""

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.posteriors import POSTERIORS, Cholesky, SharedDiagonal
from xmlgp.mlgpf.held_out import HeldOutChoices
from xmlgp.mlgpf.initial import initial_bias, newton_start, random_rows
from xmlgp.mlgpf.stochastic import optimiser_of
from xmlgp.model import COUNT_BYTES, MemoryPart
from xmlgp.training.minibatches import SAMPLERS

__all__ = ["InducingMethod"]

#: Largest number of points for the Newton step: a hundred for each of a few hundred inducing inputs.
NEWTON_POINTS = 1 << 15

#: Number of points whose coordinates are computed at a time.
CHUNK = 2048

#: Stochastic steps of learning on.
LEARNING_STEPS = 60


class InducingMethod:
    """The method of MLGPF with h_p ~ GP(0, k) and inducing inputs ([S] section 3, [L] section 3)."""

    has_label_weights = False
    learning_steps = LEARNING_STEPS

    def __init__(self, settings):
        self.settings = settings
        kernel = Kernel(settings.kernel.split("+"), settings.ard)
        self.latent = Inducing(kernel, POSTERIORS[settings.posterior], settings.inducing_fixed)
        self.expectations = make_expectations(settings.expectations, settings.nodes)
        self.predict = self.latent.predict

    def coordinates(self, features, preprocessed, work):
        """Return the `Inputs` of training points, given X as read."""
        return preprocessed.inputs(features, self.settings.dtype)

    def samplers(self, labels):
        """Return the options of `make_batch` for points with these labels."""
        settings = self.settings
        return {"negatives": settings.negatives, "sampler": SAMPLERS[settings.sampling](labels)}

    def start(self, coordinates, labels, inducing, random):
        """Return the bound and its initial parameters, for points to train on and the initial A or Z."""
        return Bound(self.latent, self.expectations), self.initial(coordinates, labels, inducing, random)

    def later_stages(self, problem, steps, trained, held):
        """Return the stages after the stochastic steps: the calibration, if points are held out."""
        return [HeldOutChoices(problem, trained, held, steps.parameters)] if len(held) else []

    def initial(self, coordinates, labels, inducing, random):
        """Return initial parameters by name, given the points to train on and the initial A or Z.

        b is at the log odds of each label's frequency, Φ ~ N(0, 1/P) and the means of q(u_p) are small and random. A
        Newton step replaces Φ and the means, if so set.
        """
        settings = self.settings
        dtype = np.dtype(self.settings.dtype)
        kernel = self.latent.kernel
        posterior = self.latent.posterior
        P = settings.factor_count
        # Fortran order, which the products of `inner_products` are fastest with.
        parameters = {"inducing": np.array(inducing, dtype, order="F")}
        parameters |= kernel.initial(inducing.shape[1], settings.lengthscale, dtype)
        parameters |= posterior.initial(len(inducing), P, settings.diagonal, random, dtype)
        if isinstance(posterior, Cholesky):
            # A diagonal covariance of q(u_p) would be far from a prior of lower rank than M.
            diagonal = SharedDiagonal().initial(len(inducing), P, settings.diagonal, random, dtype)
            parameters |= posterior.parameters_of_diagonal(diagonal, kernel.forward_inducing(parameters)[0])
        parameters["loadings"] = random_rows(labels.shape[1], P, random, dtype)
        parameters["bias"] = initial_bias(labels, dtype)
        if settings.start == "newton":
            self._newton_step(parameters, coordinates, labels, random)
        return parameters

    def _newton_step(self, parameters, coordinates, labels, random):
        """Replace the means of q(u_p) and Φ by those of `newton_start`, from at most `NEWTON_POINTS` points."""
        kernel = self.latent.kernel
        posterior = self.latent.posterior
        count = labels.shape[0]
        rows = np.arange(count)
        if count > NEWTON_POINTS:
            rows = np.sort(random.choice(count, NEWTON_POINTS, replace=False))
        K_Z, between = kernel.forward_inducing(parameters)
        cross = np.empty((len(rows), len(K_Z)), coordinates.dtype)
        for first in range(0, len(rows), CHUNK):
            chunk = slice(first, first + CHUNK)
            cross[chunk], _, _ = kernel.forward_points(Points(*coordinates.rows(rows[chunk])), between)
        weights, loadings = newton_start(
            cross, K_Z, labels[rows], parameters["bias"], self.settings.factor_count, count / len(rows)
        )
        size = loadings.shape[1]
        parameters[posterior.parameter_names[0]][:, :size] = posterior.mean_from_alpha(weights, K_Z)
        parameters["loadings"][:, :size] = loadings

    def parameter_names(self, parameters):
        """Return the names of the parameters of the latent functions among those of a model."""
        return self.latent.parameter_names

    def prior(self, features, coordinates, parameters, N):
        """Return the rows of what learning on changes, coordinates, the bound, and the parameters it begins with.

        The prior is the posterior of the model. Rows are all of each parameter, which None stands for.
        """
        latent = {name: parameters[name] for name in self.latent.parameter_names}
        bound = Bound(self.latent.as_prior(latent), self.expectations, {"bias"})
        moving = {name: np.array(latent[name], order="K") for name in latent if name not in bound.fixed}
        return dict.fromkeys(latent), coordinates, bound, latent | moving

    def trained(self, bound, parameters):
        """Return the parameters of a trained model, given those that steps change."""
        return parameters

    def are_valid(self, parameters, D):
        """Return whether the parameters of the latent functions of an untrusted file fit each other."""
        inducing = parameters["inducing"]
        relevances = [value for name, value in parameters.items() if name.endswith(".log_relevance")]
        return (
            inducing.ndim == 2 and inducing.size > 0 and all(value.shape == inducing.shape[1:] for value in relevances)
        )

    def memory(self, dataset):
        """Return the largest arrays of training (list of `MemoryPart`)."""
        settings = self.settings
        copies = 1 + len(optimiser_of(settings).statistics)
        itemsize = np.dtype(settings.dtype).itemsize
        N, D, K = dataset.shape
        latent = copies * itemsize * K * settings.factor_count
        if settings.inducing == "subspace":
            name = "basis_size"
            rows = min(settings.basis_size, N, D)
        else:
            name = "inducing_count"
            rows = min(settings.inducing_count, N)
        return [
            MemoryPart("the latent functions", latent, "fewer factors lower that"),
            MemoryPart(
                "what has values for each feature",
                max(COUNT_BYTES, itemsize * rows) * D,
                f"a smaller {name} lowers that",
            ),
        ]

    def memory_of_learning(self, earlier, dataset, replayed, whole):
        """Return the largest arrays of learning on (list of `MemoryPart`): what steps move, and Φ with new rows."""
        old = earlier.parameters
        K = dataset.K
        present = np.unique(dataset.labels.indices)
        copies = 1 + len(optimiser_of(self.settings).statistics)
        row = old["loadings"][:1].nbytes
        moving = sum(old[name].nbytes for name in self.latent.posterior.parameter_names) + row * len(present)
        return [MemoryPart("the latent functions", copies * moving + row * K * (K > earlier.K))]
