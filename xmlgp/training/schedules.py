"""How the learning rate and the batch size change over training."""

__all__ = ["SCHEDULES", "batch_size_of_epoch", "constant", "linear", "usual_epochs"]


#: Steps after which held-out points of five data sets, of 5,000 to 22,000 points, are hardly ranked better.
USUAL_STEPS = 800

#: Passes over the data that are made at least and at most.
EPOCHS_RANGE = (5, 60)


def constant(progress):
    """Return 1: the learning rate stays."""
    return 1.0


def linear(progress):
    """Return the factor of a rate that stays for the first half and then falls linearly to zero.

    Parameters
    ----------
    progress : float
        Share of all steps done, 0 to 1.
    """
    return min(1.0, 2.0 * (1.0 - progress))


SCHEDULES = {"constant": constant, "linear": linear}


def usual_epochs(count, batch_size):
    """Return how often to pass over N points: as often as makes `USUAL_STEPS`, within `EPOCHS_RANGE`.

    Parameters
    ----------
    count : int
        N.
    batch_size : int
    """
    least, most = EPOCHS_RANGE
    return min(max(least, round(USUAL_STEPS * batch_size / max(1, count))), most)


def batch_size_of_epoch(epoch, epochs, first, last):
    """Return the batch size of an epoch, growing geometrically from `first` to `last`.

    Parameters
    ----------
    epoch, epochs : int
        Counted from 0; their number.
    first, last : int
        Batch sizes of the first and the last epoch.
    """
    if epochs <= 1:
        return last
    return round(first * (last / first) ** (epoch / (epochs - 1)))
