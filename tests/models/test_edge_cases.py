"""Extreme data and settings, from features to predictions: each case trains and predicts, or is refused in one line.

Each data set has one combination of settings.
"""

import itertools
import random

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset, Features
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import silent

N, D, K = 40, 12, 5


def dataset(change=None, rows=slice(None), labels=slice(None), columns=slice(None)):
    """Return the small data set, or part of it, after a change of its features and labels."""
    whole = small_dataset(N, D, K)
    X, Y = whole.features.sparse.toarray(), whole.labels.toarray()
    # No point has this feature.
    X[:, 5] = 0
    if change is not None:
        changed = change(X, Y)
        X, Y = (X, Y) if changed is None else changed
    return Dataset(
        Features(sp.csr_array(X[rows][:, columns].astype(np.float32))), sp.csr_array(Y[rows][:, labels].astype(bool))
    )


def setting(array, index, value):
    """Return a change that sets some elements of the features or labels."""

    def change(X, Y):
        {"X": X, "Y": Y}[array][index] = value

    return change


def scaled(factor):
    return lambda X, Y: (X * factor, Y)


def up_to(value):
    return lambda X, Y: (X / X.max() * np.float32(value), Y)


def one_row(X, Y):
    X[np.arange(N) != 7] = 0
    X[7, :5] = 1


ALL = slice(None)
DATA = {
    "one point": dataset(rows=[5]),
    "two points": dataset(rows=[5, 6]),
    "one feature": dataset(setting("X", (ALL, 0), 1.5), columns=[0]),
    "one label": dataset(labels=[0]),
    "one label of no point": dataset(setting("Y", ALL, False), labels=[0]),
    "one label of all points": dataset(setting("Y", ALL, True), labels=[0]),
    "no labels": dataset(setting("Y", ALL, False)),
    "all labels of all points": dataset(setting("Y", ALL, True)),
    "rows of zeros": dataset(setting("X", slice(None, None, 3), 0)),
    "all rows zero": dataset(setting("X", ALL, 0)),
    "one row not zero": dataset(one_row),
    "identical points": dataset(rows=[5] * 30),
    "both signs": dataset(scaled(np.where(np.arange(D) % 2, 1, -1))),
    "large": dataset(scaled(1e30)),
    "largest floats": dataset(up_to(3e38)),
    "smallest floats": dataset(up_to(1e-38)),
    "large and small": dataset(scaled(np.logspace(-30, 30, D))),
}
#: Data that are extreme for any form of the latent functions.
EXTREME = ["one point", "one label of all points", "all rows zero", "both signs", "largest floats", "smallest floats"]

#: Without weighting, the covariances of these overflow single precision.
LARGE = {"large", "largest floats", "large and small"}

#: Values of settings. Many are too large for so few points, features and labels: M > N, R > rank, P > K.
CHOICES = {
    "data": list(DATA),
    "weighting": ["root-idf", "unit", "none"],
    "kernel": ["linear", "se", "se+linear"],
    "ard": [True, False],
    "posterior": ["shared-diagonal", "diagonal", "cholesky"],
    "inducing": ["free", "subspace"],
    "inducing_start": ["rows", "kmeans"],
    "inducing_fixed": [False, True],
    "inducing_count": [6, 1, 60],
    "basis_size": [5, 1, 60],
    "factors": [3, 1, 20],
    "negatives": [None, 1, 50],
    "batch_size": [16, 1, 500],
    "start": ["newton", "random"],
    "optimiser": ["adam", "adadelta"],
    "nodes": [10, 1],
    "dtype": ["float32", "float64"],
}


def cases():
    """Return a case for each data set; each value of each setting occurs, next to values drawn at random."""
    drawn, found = random.Random(0), {}
    for name, values in CHOICES.items():
        found[name] = list(itertools.islice(itertools.cycle(values), len(DATA)))
        drawn.shuffle(found[name])
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


CASES = cases()


def trained(data, settings):
    """Return the predictor and the `TrainingResult`; everything of it is finite."""
    kind = MODELS[settings.model]
    preprocessed = kind.preprocess(data.features, settings, silent)
    found = kind.train(data.features, data.labels, preprocessed, settings, silent, None)
    assert all(np.isfinite(value).all() for value in found.parameters.values())
    assert all(np.isfinite(epoch[kind.objective]) for epoch in found.history)
    return kind.load_predictor()(settings, preprocessed, found.parameters, data.D)


def check_data(name, settings, errors=(1e-3, 1e-3)):
    """Check that a model trains on data and predicts them and new points, with such errors, or refuses them."""
    data, unweighted = DATA[name], settings.weighting == "none"
    if refusal := refusal_of(name, unweighted):
        with pytest.raises(SettingsError, match=refusal):
            trained(data, settings)
        return
    predictor = trained(data, settings)
    for points, error in zip((data.features, new_points(data.D, not unweighted)), errors, strict=True):
        check_predictions(predictor, points, data.K, error)


def new_points(count, weighted):
    """Return points with no features, with one that no training point has, with all, and with extreme values."""
    points = np.zeros((6, count), np.float32)
    points[1, min(5, count - 1)] = 2
    points[2] = 1
    points[3] = -1
    points[4] = 1e-38
    points[5] = 3e38 if weighted else 1e3
    return Features(sp.csr_array(points))


def check_predictions(predictor, points, label_count, error):
    for output in OUTPUTS:
        scores, deviations = predictor.score(points, output, with_std=True)
        assert scores.shape == deviations.shape == (points.N, label_count)
        assert np.isfinite(scores).all()
        assert np.isfinite(deviations).all()
        assert (deviations >= 0).all()
        if output == "probability":
            assert scores.min() >= 0
            assert scores.max() <= 1
        (top,) = predictor.top(points, 2, output, with_std=True)
        best = scores.max(axis=1)
        assert len(top.labels) == points.N * min(2, label_count)
        atol = error * max(1, np.abs(best).max())
        np.testing.assert_allclose(top.scores[top.indptr[:-1]], best, rtol=error, atol=atol)


#: In weight space, with and without label weights.
WEIGHT_SPACE = {"inducing": "features", "optimiser": "adagrad", "label_sample": 2, "batch_size": 16, "factors": 3}
CASES += [{"data": name, "label_weights": i % 2 == 0} | WEIGHT_SPACE for i, name in enumerate(EXTREME)]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join(str(case.get(k)) for k in ("data", "kernel", "posterior"))
)
def test_mlgpf_trains_and_predicts_or_refuses_the_data(case):
    chosen = dict(case)
    name = chosen.pop("data")
    # Without weighting, one new point is a thousand times as far away as the training points. Its utilities are small
    # differences of large numbers.
    far = 0.03 if chosen.get("weighting") == "none" else 1e-3
    check_data(name, MLGPFSettings(epochs=2, **chosen), (1e-3, far))


def refusal_of(name, unweighted):
    """Return what the error of data says that a model refuses, or None."""
    if name == "all rows zero":
        return "^there is nothing to learn from: no training point has a feature$"
    if name in LARGE and unweighted:
        return r"^features are as large as [^\n]*; scale them, or choose [^\n]*$"
    return None


INFERENCES = ("em", "em-cg", "online-em", "gibbs")

#: Settings of bmlpl by the name of a case. Many are too large for so few points, features and labels.
TOPICS = {
    "usual": {},
    "one topic": {"topics": 1, "weighting": "unit", "batch_size": 1},
    "many topics": {"topics": 30, "weighting": "idf", "batch_size": 16, "dtype": "float64"},
    "unweighted": {"weighting": "none", "revealed": 0.5, "batch_size": 7, "concentration": 2.0},
    "weak prior": {"precision": 1e-6, "concentration": 1e-30, "weighting": "unit", "learn_precision": True},
    "strong prior": {"precision": 1e6, "concentration": 1e6, "revealed": 1e-9, "cg_steps": 100},
}


@pytest.mark.parametrize(
    ("name", "inference", "case"),
    # Each kind of data, each inference and each case.
    [(name, INFERENCES[i % 4], list(TOPICS)[i % 6]) for i, name in enumerate(DATA)],
)
def test_bmlpl_trains_and_predicts_or_refuses_the_data(name, inference, case):
    chosen = dict(TOPICS[case])
    if inference == "online-em":
        chosen.pop("learn_precision", None)
    check_data(name, BMLPLSettings(inference=inference, iterations=6, thinning=1, **chosen))


@pytest.mark.parametrize(
    "settings",
    [
        MLGPFSettings(factors=3, epochs=2, kernel="se", negatives=2, inducing="free", inducing_count=6),
        BMLPLSettings(iterations=200),
    ],
    ids=["mlgpf", "bmlpl"],
)
def test_labels_of_all_points_are_separated_from_labels_of_none(settings):
    data = dataset(lambda X, Y: (X, np.hstack([Y, np.ones((N, 1)), np.zeros((N, 1))])))
    probabilities, _ = trained(data, settings).score(data.features, "probability")
    assert probabilities[:, K].min() > 0.7
    assert probabilities[:, K + 1].max() < 0.1
