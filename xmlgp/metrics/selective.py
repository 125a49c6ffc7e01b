"""Does a model know when it is right? The precision of the points it is certain of against that of the others."""

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.metrics.ranking import evaluate_ranking

__all__ = ["first_deviations", "precision_by_certainty"]


def first_deviations(scores, deviations):
    """Return the standard deviation of the first label of each point, the one of highest score.

    Parameters
    ----------
    scores : csr_array of float, N×K
        The scores of the labels predicted; of equal ones the lower label is first.
    deviations : array of float, n
        The standard deviations of its stored entries, in their order.

    Returns
    -------
    array of float, N
        Infinite for a point without scores, of which nothing is known.
    """
    counts = np.diff(scores.indptr)
    order = np.lexsort((scores.indices, -1.0 * scores.data, np.repeat(np.arange(len(counts)), counts)))
    first = np.full(len(counts), np.inf)
    first[counts > 0] = deviations[order[scores.indptr[:-1][counts > 0]]]
    return first


def precision_by_certainty(scores, labels, uncertainty, ks=(1, 3, 5)):
    """Measure the precision of the half of the points that is most certain, and of the other half.

    The points that have a label are put in order of their uncertainty, equal ones as they come. The first half of them
    is the certain one; of an odd number the point in the middle is of the other half.

    Parameters
    ----------
    scores : csr_array of float, N×K
    labels : csr_array of bool, N×K
        The true labels.
    uncertainty : array of float, N
        The higher, the less certain; such as `first_deviations`.
    ks : sequence of int
        The numbers of labels to look at.

    Returns
    -------
    dict of str to float
        `P_certain@1`, …, `P_uncertain@1`, …: P@k of each half in percent, as `evaluate_ranking` measures it.

    Raises
    ------
    SettingsError
        Where the shapes disagree, an uncertainty is no number or there are not two points with a label.
    """
    if len(uncertainty) != labels.shape[0]:
        raise SettingsError(f"the uncertainties are of {len(uncertainty)} points, the true labels of {labels.shape[0]}")
    if np.isnan(uncertainty).any():
        raise SettingsError("an uncertainty that is no number cannot be put in order")
    labelled = np.flatnonzero(labels.sum(axis=1))
    if len(labelled) < 2:
        raise SettingsError("there are no two points with a true label, so there are no halves to compare")
    ordered = labelled[np.argsort(uncertainty[labelled], kind="stable")]
    measures = {}
    for name, half in zip(("certain", "uncertain"), np.split(ordered, [len(ordered) // 2]), strict=True):
        found = evaluate_ranking(scores[half], labels[half], ks)
        measures |= {f"P_{name}@{k}": found[f"P@{k}"] for k in ks}
    return measures
