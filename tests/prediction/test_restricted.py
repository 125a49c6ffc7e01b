"""A restricted predictor lists what the whole one lists, without the labels that are not allowed."""

import numpy as np
import pytest

from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.errors import SettingsError
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.restricted import RestrictedPredictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runs.stored import open_predictor
from xmlgp.runs.train import train_model

TEST = small_dataset(seed=7).rows(slice(0, 9)).features


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    settings = MLGPFSettings(factors=3, inducing_count=6, epochs=2, batch_size=16)
    return open_predictor(train_model(small_dataset(), tmp_path_factory.mktemp("model"), settings))


def listed(predictor, *arguments):
    scores = Scores.stack(list(predictor.top(TEST, *arguments)))
    rows = np.repeat(np.arange(scores.N), np.diff(scores.indptr))
    columns = [scores.labels, scores.scores] + ([] if scores.std is None else [scores.std])
    found = [[] for _ in range(scores.N)]
    for row, *values in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
        found[row].append(tuple(values))
    return found


@each_value(allowed=[[0], [6], [1, 3, 5], [0, 1, 2, 3, 4, 6], list(range(7))], k=[1, 2, 7, 100, None])
@pytest.mark.parametrize(("output", "with_std"), [("utility", False), ("probability", True)])
def test_allowed_labels_are_listed_in_order(predictor, allowed, k, output, with_std):
    restricted = RestrictedPredictor(predictor, np.isin(np.arange(7), allowed))
    assert restricted.label_count == len(allowed)
    whole = listed(predictor, None, output, with_std)
    expected = [[label for label in labels if label[0] in allowed][: k or 7] for labels in whole]
    for found, wanted in zip(listed(restricted, k, output, with_std), expected, strict=True):
        assert [label for label, *_ in found] == [label for label, *_ in wanted]
        np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-6)
    (first, *_) = restricted.top(TEST, k, output, with_std)
    assert first.K == 7


def test_points_of_other_models_are_refused(predictor):
    restricted = RestrictedPredictor(predictor, np.ones(7, bool))
    assert (restricted.feature_count, restricted.default_output) == (25, predictor.default_output)
    restricted.check(25)
    with pytest.raises(SettingsError):
        restricted.check(24)
