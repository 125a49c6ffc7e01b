"""Schedules of the learning rate and the batch size, and the default number of epochs."""

__all__ = ["SCHEDULES", "batch_size_of_epoch", "constant", "linear", "default_epochs"]


#: Largest default number of epochs.
MOST_EPOCHS = 60


def constant(progress):
    """Return the factor 1 of the learning rate, for any progress."""
    return 1.0


def linear(progress):
    """Return the factor of a learning rate that is constant for the first half of the steps, then falls to zero.

    Parameters
    ----------
    progress : float
        Share of all steps made, from 0 to 1.
    """
    return min(1.0, 2.0 * (1.0 - progress))


SCHEDULES = {"constant": constant, "linear": linear}


def default_epochs(count, batch_size, steps, least):
    """Return the default number of epochs: enough for about so many steps, from the least to `MOST_EPOCHS`.

    Parameters
    ----------
    count : int
        N.
    batch_size : int
    steps : int
    least : int
    """
    return min(max(least, round(steps * batch_size / max(1, count))), MOST_EPOCHS)


def batch_size_of_epoch(epoch, epochs, first, last):
    """Return the batch size of an epoch; it grows geometrically from the first to the last epoch.

    Parameters
    ----------
    epoch : int
        Counted from 0.
    epochs : int
        Number of epochs.
    first, last : int
        Batch sizes of the first and the last epoch.
    """
    if epochs <= 1:
        return last
    return round(first * (last / first) ** (epoch / (epochs - 1)))
