"""Numerical gradients, against which the tests compare every gradient."""

import numpy as np

__all__ = ["central_differences"]


def central_differences(function, arrays, names=None, step=1e-5):
    """Return the gradients of a function of named arrays by central differences.

    Parameters
    ----------
    function : callable
        Takes a mapping of names to arrays and returns a number.
    arrays : mapping of str to ndarray
        The point at which the gradients are computed.
    names : collection of str, optional
        Arrays to differentiate by; all by default.
    step : float

    Returns
    -------
    dict of str to ndarray
    """
    gradients = {}
    for name in arrays if names is None else names:
        gradients[name] = gradient = np.zeros(np.shape(arrays[name]))
        for index in np.ndindex(gradient.shape):
            values = []
            for sign in (1, -1):
                moved = np.array(arrays[name], np.float64)
                moved[index] += sign * step
                values.append(function(arrays | {name: moved}))
            gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradients
