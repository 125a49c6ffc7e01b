"""A real binary data set: accuracy compared with a linear model, and informative probabilities."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from xmlgp.data.formats import read_dataset
from xmlgp.gp.expectations import expected_sigmoid
from xmlgp.gp.inner_products import Points
from xmlgp.gpc.model import GPC
from xmlgp.gpc.settings import INFERENCES, GPCSettings
from xmlgp.gpc.train import run_inference
from xmlgp.preprocess.pipeline import standardise_features

DATASETS = Path(__file__).parents[3] / "shared" / "datasets" / "binary"

#: Enough iterations for these data sets, though not all methods have converged.
ITERATIONS = {"svi-adadelta": 200, "vi-jj": 15, "vi-jj-full": 2, "vi-jj-hybrid": 10, "vi-taylor": 10}


def points(name):
    path = DATASETS / f"{name}.svm"
    if not path.exists():
        pytest.skip(f"the real data sets are not in {DATASETS}")
    dataset, _ = read_dataset(path, cache=False)
    return dataset


@pytest.fixture(scope="module")
def data():
    """Return training and test points."""
    return points("svmguide1.train"), points("svmguide1.test")


@pytest.mark.parametrize("inference", INFERENCES)
def test_accuracy_is_about_that_of_a_linear_model_or_higher(data, inference):
    train, test = data
    settings = GPCSettings(inference=inference, inducing_count=50, iterations=ITERATIONS[inference])
    preprocessed = standardise_features(train.features, settings)
    coordinates = preprocessed.coordinates(train.features, "float64")
    parameters, history = run_inference(coordinates, train.labels, preprocessed.inducing, settings)
    others = preprocessed.coordinates(test.features, "float64")
    moments = GPC().predictive(parameters)(Points(*others.rows(slice(None))))
    probability = expected_sigmoid(*moments)

    truth, known = test.labels.toarray()[:, 0], train.labels.toarray()[:, 0]
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    linear.fit(train.features.toarray(), known)
    assert accuracy_score(truth, probability > 0.5) >= linear.score(test.features.toarray(), truth) - 0.02
    assert log_loss(truth, probability) < log_loss(truth, np.full(len(truth), known.mean())) - 0.05
    # The bound exceeds the log likelihood of the class frequencies.
    assert history[-1]["bound"] > -len(known) * log_loss(known, np.full(len(known), known.mean()))
