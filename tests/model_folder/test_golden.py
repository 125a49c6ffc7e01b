"""Golden models: the format does not change by accident, and stored models keep their predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.model_folder.golden.make import DENSE, MODELS, data
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Features
from xmlgp.data.formats import read_dataset
from xmlgp.model_folder.description import FORMAT_VERSION
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import table
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.prediction.scores_file import read_scores

GOLDEN = Path(__file__).parent / "golden"

#: Rounding errors of float32: of scores, and of standard deviations, which are square roots of small differences.
ROUNDING, ROOT_OF_ROUNDING = 1e-5, 2e-3

any_model = pytest.mark.parametrize("model", MODELS)


def described(path):
    return json.loads((path / "model.json").read_text())


def contents(path):
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def test_every_model_has_a_golden_model_in_the_current_format():
    descriptions = [described(GOLDEN / model) for model in MODELS]
    assert {description["model"] for description in descriptions} == table.MODELS.keys()
    for description in descriptions:
        assert (description["stage"], description["format_version"]) == ("trained", FORMAT_VERSION)


@any_model
@pytest.mark.parametrize("output", OUTPUTS)
def test_predictions_are_unchanged(model, output):
    path = GOLDEN / model
    before = contents(path)
    dataset = read_dataset(data(model, "test"))
    K = described(path)["data"]["K"]
    predictor = open_model(ModelFolder(path)).predictor
    expected = read_scores(path / f"{output}.txt")
    pairs = (path / f"{output}.txt").read_text().partition("\n")[2].split()
    deviations = np.array([pair.split(":")[2] for pair in pairs], float)
    features = dataset.features
    if model == DENSE:
        features = Features(features.sparse, np.load(GOLDEN / "test.npy"))
    (found,) = predictor.top(features, None, output, with_std=True)
    for scores in (expected, found):
        assert (scores.N, scores.K, len(scores.labels)) == (6, K, 6 * K)
    kinds = (expected.scores, found.scores, ROUNDING), (deviations, found.std, ROOT_OF_ROUNDING)
    for there, here, tolerance in kinds:
        there, here = by_label(expected, there), by_label(found, here)
        np.testing.assert_allclose(here, there, rtol=ROUNDING, atol=tolerance)
    assert contents(path) == before


def by_label(scores, values):
    """Return the values of all labels of each point, N×K."""
    out = np.full((scores.N, scores.K), np.nan)
    out[np.repeat(np.arange(scores.N), np.diff(scores.indptr)), scores.labels] = values
    return out
