"""Precision, recall and F1 of assigned labels agree with scikit-learn, and are defined where nothing is assigned."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import precision_recall_fscore_support

from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.metrics.statistics import values
from xmlgp.runtime.errors import SettingsError


def problem(N=30, K=12):
    """Return true and assigned labels, N×K; some points and labels have neither, some only one kind."""
    random = np.random.default_rng(0)
    truth, assigned = random.random((2, N, K)) < 0.2
    truth[:4], assigned[2:6] = False, False
    truth[:, :3], assigned[:, 2:5] = False, False
    return truth, assigned


@pytest.mark.parametrize(("name", "average"), [("micro", "micro"), ("macro", "macro"), ("point", "samples")])
def test_measures_agree_with_scikit_learn(name, average):
    truth, assigned = problem()
    stored = csr_array(assigned)
    # Any stored score, also a zero, is an assigned label; those of the last point are in descending order.
    stored.indices[stored.indptr[-2] :] = stored.indices[stored.indptr[-2] :][::-1].copy()
    stored = csr_array((np.zeros(stored.nnz), stored.indices, stored.indptr), stored.shape)
    result = values(assignment_statistics(stored, csr_array(truth)))
    assert not truth.any(axis=1).all()
    if name == "macro":
        some = (truth | assigned).any(axis=0)
        assert not some.all()
        truth, assigned = truth[:, some], assigned[:, some]
    expected = precision_recall_fscore_support(truth, assigned, average=average, zero_division=0)[:3]
    assert [result[f"{measure}_{name}"] for measure in ("precision", "recall", "F1")] == pytest.approx(expected)


def test_what_cannot_be_evaluated_is_refused():
    truth = csr_array(np.eye(3, dtype=bool))
    with pytest.raises(SettingsError, match="the scores are 3×2, the true labels 3×3"):
        assignment_statistics(truth[:, :2], truth)
    with pytest.raises(SettingsError, match=r"^no point has a true label, so there is nothing to evaluate$"):
        assignment_statistics(truth, csr_array((3, 3), dtype=bool))
