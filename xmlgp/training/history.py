"""The history of a training, epoch by epoch: what a stranger's file may hold in its place, and what it says."""

import sys

__all__ = ["OBJECTIVES", "epochs_in_words", "is_epoch", "is_history", "is_number", "objective_in_words"]

#: What training raises, of which every epoch of a history tells, by the name of the model.
OBJECTIVES = {"mlgpf": "bound", "bmlpl": "log_posterior", "gpc": "bound"}


#: What the passes over the data are called, by the name of the model.
PASSES = {"mlgpf": "epoch", "bmlpl": "iteration", "gpc": "iteration"}


def epochs_in_words(entry, model):
    """Return how many epochs there are up to one of a model's history: "20 epochs", "1 iteration"."""
    return f"{entry['epoch']} {PASSES[model]}{'s' * (entry['epoch'] > 1)}"


def is_epoch(entry, model):
    """Return whether what a file has in the place of an epoch of a model's history is one."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(key), int | float) for key in ("epoch", OBJECTIVES[model], "seconds")
    )


def objective_in_words(entry, model):
    """Return what an epoch of a model's history says of what training raises: "bound -33136.6"."""
    name = OBJECTIVES[model]
    return f"{name.replace('_', ' ')} {entry[name]:.6g}"


def is_history(value, model, *measures):
    """Return whether what a file has in the place of a model's history is one, epoch by epoch, of finite numbers.

    Parameters
    ----------
    value : object
    model : str
        One of `OBJECTIVES`.
    *measures : str
        That each epoch has beside what all have.
    """
    return (
        isinstance(value, list)
        and all(is_epoch(epoch, model) for epoch in value)
        and all(epoch.keys() >= set(measures) for epoch in value)
        # The description of a model, which it comes to be in, has nothing else.
        and all(name.isprintable() and is_number(number) for epoch in value for name, number in epoch.items())
        and [epoch["epoch"] for epoch in value] == list(range(1, len(value) + 1))
    )


def is_number(value, least=-sys.float_info.max):
    """Return whether what a file has in the place of a number is one, finite and not below the least."""
    # Integers of JSON may be greater than any float, and Python takes true for one.
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= sys.float_info.max
