"""The mathematics that Gaussian process models share: pure functions of arrays, each with its gradient beside it.

Every differentiable component has two verbs. `forward` returns values and a tape, which holds what the gradient needs.
`backward` takes the tape and the gradients by the values, and returns the gradients by the inputs, those of parameters
by name. `bound.py` composes the components:

    inner products -> kernel -> posterior -> likelihood with expectations, less the KL divergences

Parameters are one flat mapping of names to arrays in an unconstrained space.
"""
