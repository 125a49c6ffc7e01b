"""The compared probabilities, their measures, and folders without data."""

import json

import numpy as np
import probabilities
import pytest
import scipy.sparse as sp
import sklearn.metrics
from click.testing import CliRunner
from probabilities import Prediction, measure, predict_frequencies, predict_logistic
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize

from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset


@pytest.fixture
def data():
    """Training and test points; no training point has label 0 and all have label 1."""
    train, test = small_dataset(60), small_dataset(30, seed=7)
    labels = train.labels.toarray()
    labels[:, 0], labels[:, 1] = False, True
    return Dataset(train.features, sp.csr_array(labels)), test


def test_logistic_regression_agrees_with_scikit_learn(data):
    train, test = data
    idf = True
    found = predict_logistic(train, test, 4, idf).probabilities
    assert found[:, :2] == pytest.approx(np.tile([1 / 62, 61 / 62], (30, 1)))
    weigh = TfidfTransformer().fit(train.features).transform if idf else normalize
    model = OneVsRestClassifier(LogisticRegression(C=4, solver="liblinear", random_state=0))
    model.fit(weigh(train.features), train.labels.toarray()[:, 2:])
    np.testing.assert_allclose(found[:, 2:], model.predict_proba(weigh(test.features)), rtol=1e-3)


def test_frequencies_follow_the_rule_of_succession(data):
    train, test = data
    found = predict_frequencies(train, test).probabilities
    assert found.shape == (30, 7)
    assert found[0] == pytest.approx((train.labels.toarray().sum(axis=0) + 1) / 62)
    assert (found == found[0]).all()


def test_measures_of_a_prediction():
    rng = np.random.default_rng(0)
    scores, truth = rng.random((40, 6)), rng.random((40, 6)) < 0.5
    right = truth[np.arange(40), scores.argmax(axis=1)]
    found = measure(Prediction(scores, 1.5), sp.csr_array(truth))
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(truth.ravel(), scores.ravel()))
    assert found["P@1"] == pytest.approx(100 * right.mean())
    assert found["train_s"] == 1.5


def test_every_model_is_measured_and_folders_without_data_are_skipped(tmp_path):
    (tmp_path / "small").mkdir()
    for name, seed in ("train.txt", 0), ("test.txt", 7):
        write_dataset(tmp_path / "small" / name, small_dataset(60, seed=seed))
    quick = [
        "--set",
        "epochs=1",
        "--set",
        "inducing_count=5",
        "--set",
        "factors=3",
        "--seeds",
        "2",
        "--strength",
        "0.5",
    ]
    arguments = [tmp_path / "nothing", tmp_path / "small", "--json", tmp_path / "out.json"]
    result = CliRunner().invoke(probabilities.main, [*map(str, arguments), *quick])
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{tmp_path / 'nothing'} is skipped: it has no train.txt and test.txt\n"
    measured = json.loads((tmp_path / "out.json").read_text())["small"]
    models = ["frequencies", "xmlgp, seed 0", "xmlgp, seed 1", "logistic C=0.5", "logistic C=0.5, idf"]
    assert list(measured) == models
    for model in models:
        assert f"\n{model}  " in "\n" + result.stdout
    assert measured["xmlgp, seed 0"]["log_loss"] != measured["xmlgp, seed 1"]["log_loss"]
