"""The check of the parameters of a BMLPL model, which may come from an untrusted file."""

import numpy as np

__all__ = ["are_valid_parameters"]

#: Largest rounding error of sums that should be one.
SUM_TOLERANCE = 1e-2


def are_valid_parameters(parameters, sizes):
    """Return whether the names, shapes and values of arrays are those of a model of (D, K, T) `sizes`."""
    D, K, T = sizes
    shapes = {
        "topics": (K, T),
        "weights": (D, T),
        "intercepts": (T,),
        "shapes": (T,),
        "precisions": (D,),
        "shares": (T,),
    }
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
