"""The page on evaluation says where scikit-learn's measures differ; other tools are in tests/interchange."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import ndcg_score, recall_score

from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.ranking import ranking_statistics


def test_macro_averages_of_scikit_learn_are_over_all_columns() -> None:
    truth = np.array([[1, 0, 0], [0, 1, 0]], bool)
    ours = macro_statistics(csr_array(truth.astype(float)), csr_array(truth), [1])["macro-recall@1"].value
    assert ours == 100
    assert recall_score(truth, truth, average="macro", zero_division=0) == pytest.approx(2 / 3)


def test_ndcg_score_of_scikit_learn_has_another_order_of_equal_scores() -> None:
    truth, scores = np.array([[True, False, False]]), np.array([[0.5, 0.5, 0.1]])
    assert ranking_statistics(csr_array(scores), csr_array(truth), [1])["nDCG@1"].value == 100
    assert ndcg_score(truth, scores, k=1) == 0.5
    assert ndcg_score(truth, scores, k=1, ignore_ties=True) == 0
