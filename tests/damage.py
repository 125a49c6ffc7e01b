"""Ways to damage the arrays of a model."""

import numpy as np


def changed_at(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


def around(array):
    """Return an array that is not sorted although its differences are not negative: one of them overflows."""
    array = array.copy()
    array[2:4] = 2**63 - 1, int(array[4]) + 1 - 2**63
    assert (np.diff(array) >= 0).all()
    return array


def shorter(array):
    return array[:-1]


def longer(array):
    return np.append(array, array[-1:])
