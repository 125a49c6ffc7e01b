"""What the parameters of a BMLPL model are, whoever brings them."""

import numpy as np

__all__ = ["are_valid_parameters"]

#: How far sums of topics may be from one: they are rounded.
SUM_TOLERANCE = 1e-2


def are_valid_parameters(parameters, sizes):
    """Return whether arrays are the parameters of a model: there are all and no others, of right shapes and values.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        `topics` V, K×T; `weights` W, D×T; `intercepts`, T; `shapes` r, T; `precisions` τ, D; `shares`, T; or whatever
        else a stranger has in their place.
    sizes : tuple of int
        D, K and T.
    """
    D, K, T = sizes
    shapes = {"topics": (K, T), "weights": (D, T), "intercepts": (T,), "shapes": (T,), "precisions": (D,)}
    shapes["shares"] = (T,)
    return bool(
        parameters.keys() == shapes.keys()
        and all(parameters[name].shape == shape for name, shape in shapes.items())
        and all(value.dtype.kind == "f" and np.isfinite(value).all() for value in parameters.values())
        and (parameters["topics"] >= 0).all()
        and (abs(parameters["topics"].sum(axis=0, dtype=np.float64) - 1) < SUM_TOLERANCE).all()
        and (parameters["shapes"] > 0).all()
        and (parameters["precisions"] > 0).all()
        and (parameters["shares"] >= 0).all()
        and abs(parameters["shares"].sum(dtype=np.float64) - 1) < SUM_TOLERANCE
    )
