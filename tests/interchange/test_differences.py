"""The measures of other tools differ as the page on evaluation says; scikit-learn's are in tests/metrics."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.ranking import ranking_statistics


def matrix(rows, K):
    """Return lists of labels as a CSR array of bool, N×K."""
    dense = np.zeros((len(rows), K), bool)
    for point, labels in enumerate(rows):
        dense[point, labels] = True
    return csr_array(dense)


def test_measures_of_napkinxc_that_differ(call):
    theirs = call("differences_of_napkinxc")
    assert len(theirs["weights of lists"]) == 2
    true, scores = matrix([[0, 3], [1]], 4), csr_array([[0.9, 0.5, 0, 0], [0.5, 0.9, 0, 0]])
    ours = ranking_statistics(scores, true, [1, 2], 1 / theirs["weights"])
    assert [ours[f"PSP@{k}"].value / 100 for k in (1, 2)] == pytest.approx(theirs["PSP"])
    assert (theirs["PSP of lists"] == 1).all()

    third = ranking_statistics(csr_array(theirs["equal"]), matrix([[1]], 18), [3])["P@3"].value / 100
    assert (third, theirs["P of equal"][2]) == (pytest.approx(1 / 3), 0)

    ranked = csr_array([[3, 2, 1, 0], [1, 2, 3, 0], [3, 1, 2, 0.0]])
    of_labels = macro_statistics(ranked, matrix([[0], [1], [1, 3]], 4), [1])["macro-recall@1"].value / 100
    assert len(theirs["macro-recall"]) == 5
    assert theirs["macro-recall"][0] == pytest.approx(of_labels * 3 / 4)


def test_measures_of_fasttext_leave_out_unknown_labels(call):
    (N, first, recall), (_, fifth, all_found) = call("differences_of_fasttext")["measures"]
    assert (N, first, recall, all_found) == (4, 1, 0.8, 1)
    assert fifth == pytest.approx(5 / 12)
