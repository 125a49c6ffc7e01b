"""Scalable Bayesian models for extreme multi-label data.

The functions of `xmlgp.facade` are imported when they are used: every command imports this package, whose help needs no
NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from xmlgp.version import __version__ as __version__

if TYPE_CHECKING:
    from xmlgp.facade import *  # noqa: F403


def __getattr__(name: str) -> object:
    facade = import_module("xmlgp.facade")
    if name not in ("__all__", *facade.__all__):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(facade, name)


def __dir__() -> list[str]:
    return [*globals(), *import_module("xmlgp.facade").__all__]
