"""Training of GPC: five ways to the best posterior and hyperparameters."""

from xmlgp.training.gpc.loop import train_gpc

__all__ = ["train_gpc"]
