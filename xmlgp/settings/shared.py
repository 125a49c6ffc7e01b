"""Settings that several models have, each a function that makes its field: the same text and limits everywhere."""

from xmlgp.settings.fields import EPOCHS_LIMIT, setting

__all__ = ["batch_size", "dtype", "inducing_count", "iterations", "learning_rate", "nodes", "seed", "weighting"]

#: NumPy's Gauss–Hermite nodes are tested up to this degree; from some hundreds on they overflow.
NODES_LIMIT = 100

#: Seeds of scikit-learn, which k-means and the randomised SVD come from, have 32 bits.
SEED_LIMIT = 2**32 - 1


def weighting():
    """Return the field of the feature weighting."""
    return setting(
        "root-idf",
        "Feature weighting: root-idf (log(1 + x) in place of x, times the root of the inverse document frequency), idf "
        "(times the inverse document frequency), both with rows then scaled to unit length, unit (that alone) or none.",
        choices=("root-idf", "idf", "unit", "none"),
        preprocess=True,
    )


def batch_size():
    """Return the field of the size of minibatches."""
    return setting(500, "Points a minibatch (of bmlpl with online-em, of gpc with svi-adadelta).", minimum=1)


def inducing_count():
    """Return the field of the number of inducing inputs."""
    return setting(200, "Inducing inputs; at most N are used.", symbol="M", minimum=1, preprocess=True)


def iterations(usual, what):
    """Return the field of the number of iterations.

    Parameters
    ----------
    usual : mapping of str to int
        How many there are where none are asked for, by inference.
    what : str
        What an iteration is, in words.
    """
    alike = {}
    for inference, count in usual.items():
        alike.setdefault(count, []).append(inference)
    told = ", ".join(f"{count} with {_listed(inferences)}" for count, inferences in alike.items())
    text = f"Iterations, {what}; when not given {told}."
    return setting(None, text, minimum=1, maximum=EPOCHS_LIMIT, optional=True)


def learning_rate():
    """Return the field of the learning rate."""
    return setting(
        None,
        "Learning rate (of gpc with svi-adadelta); when not given 0.02 with adam, 1 with adadelta and svi-adadelta.",
        above=0,
        optional=True,
    )


def nodes():
    """Return the field of the number of quadrature nodes."""
    return setting(
        10,
        "Gauss–Hermite quadrature nodes; training uses fewer where variances are small.",
        minimum=1,
        maximum=NODES_LIMIT,
    )


def dtype():
    """Return the field of the precision."""
    return setting("float32", "Precision of training.", choices=("float32", "float64"))


def seed():
    """Return the field of the seed."""
    return setting(0, "Seed of everything random.", minimum=0, maximum=SEED_LIMIT, preprocess=True)


def _listed(words):
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
