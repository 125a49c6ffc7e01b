"""The mathematics that Gaussian process models share: pure functions of arrays, each next to its gradient.

Every differentiable component has two verbs. `forward` returns values and a tape, which holds what the gradient needs.
`backward` takes the tape and the gradients with respect to the values, and returns the gradients with respect to the
inputs; those of parameters are a mapping by name. `bound.py` composes the components:

    inner products -> kernel -> posterior -> likelihood with expectations, less the KL divergences

Parameters are one flat mapping of names to arrays in an unconstrained space.
"""
