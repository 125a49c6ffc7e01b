"""Minibatches: which points of an epoch go together, with which sampled negatives."""

import numpy as np

from xmlgp.gp.bound import Batch
from xmlgp.gp.factors import Pairs
from xmlgp.gp.products import Points

__all__ = ["epoch_rows", "make_batch", "sample_negatives"]


def epoch_rows(count, batch_size, random):
    """Return the rows of each minibatch of an epoch: a permutation cut into pieces of almost equal size.

    Parameters
    ----------
    count : int
        N.
    batch_size : int
        Largest size of a minibatch.
    random : numpy.random.Generator
    """
    return np.array_split(random.permutation(count), -(-count // batch_size))


def make_batch(coordinates, labels, rows, negatives=None, random=None):
    """Return a `Batch` of some rows.

    Parameters
    ----------
    coordinates : Coordinates
    labels : csr_array, N×K
        Y.
    rows : ndarray
        B.
    negatives : int, optional
        Sampled negatives a point; None for all.
    random : numpy.random.Generator
        Of the sample.
    """
    batch_labels = labels[rows]
    pairs = None
    if negatives is not None:
        pairs = sample_negatives(batch_labels, negatives, random, coordinates.dtype)
    return Batch(Points(*coordinates.rows(rows)), batch_labels, pairs, scale=labels.shape[0] / len(rows))


def sample_negatives(labels, count, random, dtype):
    """Return the positives of each point with a uniform sample, without replacement, of its negatives.

    Cost and memory grow with the sample and the positives, not with K. Candidates are drawn with
    replacement, those that are positives or repetitions are dropped and drawn anew: at every stage all
    remaining negatives are equally likely, so the sample is uniform.

    Parameters
    ----------
    labels : csr_array, B×K
        Positives.
    count : int
        Negatives a point, or all of them where it has fewer.
    random : numpy.random.Generator
    dtype : dtype
        Of the weights.

    Returns
    -------
    Pairs
    """
    batch, label_count = labels.shape
    positives = np.diff(labels.indptr).astype(np.int64)
    available = label_count - positives
    wanted = np.minimum(count, available)
    rows = np.arange(batch)
    base = rows * label_count
    taken = np.sort(np.repeat(base, positives) + labels.indices)
    chosen = np.empty(0, np.int64)
    # Where more than half of the negatives are wanted, drawing the rest by rejection would be slow.
    dense = np.flatnonzero(2 * wanted > available)
    if len(dense):
        keys = random.random((len(dense), label_count))
        local = np.repeat(np.arange(len(dense)), positives[dense])
        keys[local, labels[dense].indices] = 2  # behind every negative
        order = np.argsort(keys, axis=1)
        kept = np.arange(label_count) < wanted[dense][:, None]
        chosen = (order + base[dense][:, None])[kept]
    missing = np.where(2 * wanted > available, 0, wanted)
    while missing.any():
        owner = np.repeat(rows, missing)
        drawn = np.unique(owner * label_count + random.integers(0, label_count, len(owner)))
        fresh = drawn[~_among(drawn, taken)]
        taken = np.sort(np.concatenate([taken, fresh]))
        chosen = np.concatenate([chosen, fresh])
        missing -= np.bincount(fresh // label_count, minlength=batch)
    keys = np.concatenate([np.repeat(base, positives) + labels.indices, chosen])
    positive = np.arange(len(keys)) < labels.nnz
    weights = np.divide(available, wanted, out=np.zeros(batch), where=wanted > 0)
    owner = keys // label_count
    weight = np.where(positive, 1, weights[owner])
    order = np.argsort(keys, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(positives + wanted)])
    return Pairs(indptr, (keys % label_count)[order], positive[order], weight[order].astype(dtype))


def _among(values, sorted_values):
    place = np.searchsorted(sorted_values, values)
    place[place == len(sorted_values)] = 0
    return sorted_values[place] == values if len(sorted_values) else np.zeros(len(values), bool)
