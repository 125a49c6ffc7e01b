"""The weights of some labels, taken out of W with new features beside the old ones, and put back."""

import numpy as np

from xmlgp.gp.label_weight_updates import WeightsPrior
from xmlgp.gp.log_parameters import bounded_exp

__all__ = ["put_labels", "take_labels"]


def take_labels(parameters, labels, pattern, scales):
    """Return the weights of L labels, and their prior: the posterior of those that there are.

    A weight on a feature that is new to a label is N(0, ρ_k τ_d), as it is before training.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `xmlgp.gp.label_weights.initial_label_weights`.
    labels : ndarray of int, L
        In ascending order.
    pattern : tuple of ndarray
        For each of the labels features that it shall have a weight on, as `xmlgp.gp.label_weights.label_features`
        returns them.
    scales : ndarray, L
        ρ.

    Returns
    -------
    part : dict of str to ndarray
        As the parameters, for L labels.
    prior : WeightsPrior
        Of these weights.
    """
    indptr, columns, means, log_variances, log_prior = (
        parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance", "log_prior")
    )
    D, count = len(log_prior), len(labels)
    lengths = np.diff(indptr)[labels]
    old = np.repeat(indptr[labels] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    keys = np.repeat(np.arange(count), lengths) * D + columns[old]
    new_keys = np.repeat(np.arange(count), np.diff(pattern[0])) * D + pattern[1]
    all_keys = np.union1d(keys, new_keys)
    rows, features = np.divmod(all_keys, D)
    place = np.searchsorted(all_keys, keys)
    mean = np.zeros(len(all_keys), means.dtype)
    variance = bounded_exp(log_prior)[features] * scales[rows].astype(means.dtype)
    mean[place], variance[place] = means[old], bounded_exp(log_variances[old])
    part = {
        "label_weights.indptr": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64),
        "label_weights.features": features.astype(np.int32),
        "label_weights.mean": mean.copy(),
        "label_weights.log_variance": np.log(variance),
        "label_weights.log_prior": log_prior,
    }
    return part, WeightsPrior(mean, 1 / variance)


def put_labels(parameters, labels, part):
    """Return W with the weights of some labels replaced, by parameter name.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `xmlgp.gp.label_weights.initial_label_weights`.
    labels : ndarray of int, L
        In ascending order.
    part : mapping of str to ndarray
        The weights of these labels, as from `take_labels`.
    """
    indptr = parameters["label_weights.indptr"]
    before = np.diff(indptr)
    lengths, replaced = before.copy(), np.zeros(len(before), bool)
    lengths[labels], replaced[labels] = np.diff(part["label_weights.indptr"]), True
    # Where the weights of the other labels were and will be.
    kept, new = np.repeat(~replaced, before), np.repeat(replaced, lengths)
    found = dict(parameters) | {"label_weights.indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}
    for name in ("features", "mean", "log_variance"):
        name = f"label_weights.{name}"
        values = np.empty(len(new), parameters[name].dtype)
        values[~new], values[new] = parameters[name][kept], part[name]
        found[name] = values
    return found
