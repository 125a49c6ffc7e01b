"""MLGPF: the multi-label Gaussian-process factor model."""
