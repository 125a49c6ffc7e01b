"""Initial parameters of MLGPF."""

import numpy as np

from xmlgp.gp.inner_products import Points
from xmlgp.mlgpf.newton import newton_start

__all__ = ["NEWTON_POINTS", "initial_parameters"]

#: Largest number of points for the Newton step: a hundred for each of a few hundred inducing inputs.
NEWTON_POINTS = 1 << 15

#: Number of points whose coordinates are computed at a time.
CHUNK = 2048


def initial_parameters(model, coordinates, labels, inducing, random):
    """Return the initial parameters: those of `MLGPF.initial`, with a Newton step if so set.

    It replaces the random Φ and the random means of q(u_p). In weight space there is none, because it needs inducing
    inputs.

    Parameters
    ----------
    model : MLGPF
    coordinates : Inputs
        Of the N training points.
    labels : csr_array, N×K
        Y.
    inducing : ndarray, M×R or M×D
        Initial A or Z.
    random : numpy.random.Generator
    """
    if model.settings.in_weight_space:
        return model.initial(coordinates.feature_count, labels, random)
    parameters = model.initial(inducing, labels, random)
    if model.settings.start == "newton":
        count = labels.shape[0]
        rows = np.arange(count)
        if count > NEWTON_POINTS:
            rows = np.sort(random.choice(count, NEWTON_POINTS, replace=False))
        prior, between = model.kernel.forward_inducing(parameters)
        cross = np.empty((len(rows), len(inducing)), coordinates.dtype)
        for first in range(0, len(rows), CHUNK):
            chunk = slice(first, first + CHUNK)
            points = Points(*coordinates.rows(rows[chunk]))
            cross[chunk], _, _ = model.kernel.forward_points(points, between)
        weights, loadings = newton_start(
            cross, prior, labels[rows], parameters["bias"], model.settings.factor_count, count / len(rows)
        )
        found = loadings.shape[1]
        parameters[model.posterior.parameter_names[0]][:, :found] = model.posterior.mean_from_alpha(weights, prior)
        parameters["loadings"][:, :found] = loadings
    return parameters
