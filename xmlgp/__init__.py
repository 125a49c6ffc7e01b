"""Scalable Bayesian models for extreme multi-label data.

The functions of `xmlgp.api` are imported when they are used: every command imports this package, and the help of none
needs NumPy. Its `preprocess` is not here: a subpackage has this name.
"""

from typing import TYPE_CHECKING

from xmlgp.version import __version__

if TYPE_CHECKING:
    from xmlgp.api import (
        Comparison,
        Evaluation,
        PackedModel,
        Predictions,
        SearchResult,
        Source,
        Split,
        TrainedModel,
        Tuned,
        compare,
        evaluate,
        learn,
        limit_threads,
        load,
        pack,
        predict,
        report,
        search,
        serve,
        split,
        train,
        tune,
    )

__all__ = ["Comparison", "Evaluation", "PackedModel", "Predictions", "SearchResult", "Source", "Split"]
__all__ += ["TrainedModel", "Tuned", "__version__", "compare", "evaluate", "learn", "limit_threads", "load", "pack"]
__all__ += ["predict", "report", "search", "serve", "split", "train", "tune"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xmlgp import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
