"""Settings that several models have, each a function that makes its field: the same text and limits everywhere."""

from xmlgp.settings.fields import setting

__all__ = ["batch_size", "dtype", "seed", "weighting"]

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
    return setting(500, "Points a minibatch (of bmlpl with online-em).", minimum=1)


def dtype():
    """Return the field of the precision."""
    return setting("float32", "Precision of training.", choices=("float32", "float64"))


def seed():
    """Return the field of the seed."""
    return setting(0, "Seed of everything random.", minimum=0, maximum=SEED_LIMIT, preprocess=True)
