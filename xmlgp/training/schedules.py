"""How the learning rate and the batch size change over training."""

__all__ = ["SCHEDULES", "batch_size_of_epoch", "constant", "linear"]


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
