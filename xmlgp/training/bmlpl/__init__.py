"""Training BMLPL: how its parameters are inferred, step by step, and the loop around that."""

from xmlgp.training.bmlpl.loop import train_topics

__all__ = ["train_topics"]
