"""GPC: Gaussian-process classification of two classes."""
