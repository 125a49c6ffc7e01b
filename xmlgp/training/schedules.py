"""The schedule of the learning rate, and the default number of epochs."""

__all__ = ["default_epochs", "linear"]


#: Largest default number of epochs.
MOST_EPOCHS = 60


def linear(progress):
    """Return the factor of a learning rate that is constant for the first half of the steps, then falls to zero.

    The progress is the share of all steps made.
    """
    return min(1.0, 2.0 * (1.0 - progress))


def default_epochs(count, batch_size, steps, least):
    """Return the default number of epochs for N points: enough for so many steps, from `least` to `MOST_EPOCHS`."""
    return min(max(least, round(steps * batch_size / max(1, count))), MOST_EPOCHS)
