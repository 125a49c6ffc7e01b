"""Preprocessing before training: feature weights, the basis of the subspace, initial inducing inputs."""
