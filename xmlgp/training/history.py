"""The history of a training, epoch by epoch: what a stranger's file may hold in its place, and what it says."""

import sys

__all__ = ["is_epoch", "is_history", "is_number", "objective", "objective_in_words"]


def is_epoch(entry):
    """Return whether what a file has in the place of an epoch of a history is one."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(key), int | float) for key in ("epoch", objective(entry), "seconds")
    )


def objective(entry):
    """Return the name of what training raises, of which an epoch of a history tells: `bound` or `log_posterior`."""
    return "log_posterior" if "log_posterior" in entry else "bound"


def objective_in_words(entry):
    """Return the same in words, with its value in an epoch of a history: "bound -33136.6"."""
    name = objective(entry)
    return f"{name.replace('_', ' ')} {entry[name]:.6g}"


def is_history(value, *measures):
    """Return whether what a file has in the place of a history is one, epoch by epoch, of finite numbers.

    Parameters
    ----------
    value : object
    *measures : str
        That each epoch has beside what all have.
    """
    return (
        isinstance(value, list)
        and all(map(is_epoch, value))
        and all(epoch.keys() >= set(measures) for epoch in value)
        # The description of a model, which it comes to be in, has nothing else.
        and all(name.isprintable() and is_number(number) for epoch in value for name, number in epoch.items())
        and [epoch["epoch"] for epoch in value] == list(range(1, len(value) + 1))
    )


def is_number(value, least=-sys.float_info.max):
    """Return whether what a file has in the place of a number is one, finite and not below the least."""
    # Integers of JSON may be greater than any float, and Python takes true for one.
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= sys.float_info.max
