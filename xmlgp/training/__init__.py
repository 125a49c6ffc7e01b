"""Minibatches, label sampling, optimisers, schedules and the loop that turns a bound into a model."""
