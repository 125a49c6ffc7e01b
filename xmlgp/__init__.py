"""Scalable Bayesian models for extreme multi-label data.

The functions of `xmlgp.api` are imported when they are used: every command imports this package, whose help needs no
NumPy. Its `preprocess` is not here: a subpackage has this name.
"""

from typing import TYPE_CHECKING

from xmlgp.version import __version__

if TYPE_CHECKING:
    from xmlgp.api import (
        Comparison,
        Evaluation,
        Predictions,
        Source,
        TrainedModel,
        compare,
        evaluate,
        learn,
        limit_threads,
        load,
        predict,
        report,
        serve,
        split,
        train,
    )

__all__ = ["Comparison", "Evaluation", "Predictions", "Source", "TrainedModel"]
__all__ += ["__version__", "compare", "evaluate", "learn", "limit_threads", "load", "predict", "report"]
__all__ += ["serve", "split", "train"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xmlgp import api

    return getattr(api, name)
