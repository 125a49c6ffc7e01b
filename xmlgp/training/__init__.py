"""Minibatches, label sampling, optimisers and the loop that turns a bound into a model."""
