"""Settings that several models share.

Each is a function that returns a dataclass field, so default, help text and limits are the same in all models. A model
may override them with keyword arguments.
"""

from __future__ import annotations

from functools import partial

from xmlgp.models.fields import setting

__all__ = ["batch_size", "dtype", "inducing_count", "learning_rate", "nodes", "seed", "weighting"]

#: Largest number of Gauss–Hermite nodes: NumPy's are tested up to this degree, and overflow with several hundred.
NODES_LIMIT = 100

#: Largest seed: 32 bits, as in scikit-learn.
SEED_LIMIT = 2**32 - 1

weighting = partial(
    setting,
    "root-idf",
    "Feature weighting: root-idf (log(1 + x) times the square root of the inverse document frequency, rows scaled to "
    "unit length), idf (x times the inverse document frequency, rows scaled to unit length), unit (rows scaled to unit "
    "length) or none.",
    choices=("root-idf", "idf", "unit", "none"),
    preprocess=True,
)
batch_size = partial(
    setting,
    500,
    "Points in a minibatch; at most a tenth of all points with inducing=features (bmlpl: with online-em; gpc: with "
    "svi-adadelta).",
    minimum=1,
)
inducing_count = partial(setting, 200, "Inducing inputs, at most as many as points.", minimum=1, preprocess=True)
learning_rate = partial(
    setting,
    None,
    "Learning rate (gpc: with svi-adadelta).",
    above=0,
    if_unset="0.02 with adam, 0.1 with adagrad, 1 with adadelta and svi-adadelta",
)
nodes = partial(
    setting,
    10,
    "Gauss–Hermite quadrature nodes; training uses fewer for small variances.",
    minimum=1,
    maximum=NODES_LIMIT,
)
dtype = partial(setting, "float32", "Floating-point precision of training.", choices=("float32", "float64"))
seed = partial(setting, 0, "Seed of all random numbers.", minimum=0, maximum=SEED_LIMIT, preprocess=True)
