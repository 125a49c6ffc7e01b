"""Schedules of the learning rate and the batch size, and the default number of epochs."""

__all__ = ["SCHEDULES", "batch_size_of_epoch", "constant", "linear", "default_epochs"]


#: Steps after which the ranking of held-out points hardly improves, on five data sets of 5,000 to 22,000 points.
DEFAULT_STEPS = 800

#: Smallest and largest default number of epochs.
EPOCHS_RANGE = (5, 60)


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


def default_epochs(count, batch_size):
    """Return the default number of epochs, which makes about `DEFAULT_STEPS` steps, within `EPOCHS_RANGE`.

    Parameters
    ----------
    count : int
        N.
    batch_size : int
    """
    least, most = EPOCHS_RANGE
    return min(max(least, round(DEFAULT_STEPS * batch_size / max(1, count))), most)


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
