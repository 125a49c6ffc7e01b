"""Scalable Bayesian models for extreme multi-label data.

The command line is `xmlgp`; every command is one call into this library.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
