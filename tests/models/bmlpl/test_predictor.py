"""Predictions of BMLPL: the closed form against integrals and its formula, memory limit, and untrusted arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

import xmlgp
from tests.grids import each_value
from tests.models.bmlpl.problems import UNWEIGHTED
from tests.problems import small_dataset, small_features
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.bmlpl.predictor import LARGEST_LOG_ODDS, BMLPLPredictor
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.prediction import predictor as module
from xmlgp.runtime.errors import ModelFolderError, NumericalError

D = 25
K = 7
T = 4
NEW = small_features(8, D, seed=9)


def random_parameters(dtype, label_count=K, topic_count=T):
    """Return random parameters; one label has no topic."""
    random = np.random.default_rng(3)
    topics = random.dirichlet(np.ones(label_count - 1), topic_count).T
    parameters = {
        "topics": np.vstack([topics, np.zeros(topic_count)]),
        "weights": random.normal(size=(D, topic_count)),
        "intercepts": random.normal(size=topic_count),
        "shapes": random.gamma(2, size=topic_count),
        "precisions": random.gamma(2, size=D),
        "shares": random.dirichlet(np.ones(topic_count)),
    }
    return {name: value.astype(dtype) for name, value in parameters.items()}


def model(path, changes=(), label_count=K, topic_count=T, stated=T, **chosen):
    """Write a model folder with random parameters; `changes` replaces some, and leaves out those that are None."""
    settings = BMLPLSettings(**{"topics": stated, "dtype": "float64"} | chosen)
    folder = xmlgp.preprocess(small_dataset(D=D, K=label_count), path, settings=settings)
    parameters = random_parameters(settings.dtype, label_count, topic_count) | dict(changes)
    arrays = {f"parameters.{name}": value for name, value in parameters.items() if value is not None}
    return ModelFolder.write(
        path,
        settings=settings,
        stage="trained",
        data=folder.description["data"],
        arrays=folder.arrays("") | arrays,
        history=[{"epoch": 1, "log_posterior": -1.0, "seconds": 0.0}],
    )


def scales(features, parameters):
    """Return e^ψ, N×T, of points weighted as by a model of the small data set."""
    idf = TfidfTransformer().fit(small_features(40, D)).idf_
    weighted = normalize(np.log1p(features.toarray()) * np.sqrt(idf))
    return np.exp(weighted @ parameters["weights"] + parameters["intercepts"])


def test_scores_agree_with_the_formula(tmp_path):
    folder = model(tmp_path)
    parameters = folder.arrays("parameters.")
    z = scales(NEW, parameters)[:, None] * parameters["topics"]
    predictor = open_model(folder).predictor
    for with_std in (False, True):
        probability, std = predictor.score(Features(NEW), "probability", with_std)
        np.testing.assert_allclose(probability, 1 - ((1 + z) ** -parameters["shapes"]).prod(axis=2), rtol=1e-6)
        utility, spread = predictor.score(Features(NEW), "utility", with_std)
        np.testing.assert_allclose(utility, -np.log1p(-probability), rtol=1e-6)
        assert (std is None) == (spread is None) == (not with_std)
    # The variances of λ and e^(−λ) have closed forms.
    np.testing.assert_allclose(spread**2, (parameters["shapes"] * z**2).sum(axis=2), rtol=1e-6)
    first, second = (((1 + power * z) ** -parameters["shapes"]).prod(axis=2) for power in (1, 2))
    np.testing.assert_allclose(std**2, second - first**2, rtol=1e-6, atol=1e-12)
    # The label without a topic.
    assert (probability[:, -1] == 0).all()
    assert (std[:, -1] == 0).all()


@pytest.mark.parametrize("output", module.OUTPUTS)
def test_scores_that_overflow_are_refused(tmp_path, output):
    weights = np.zeros((D, T))
    weights[0] = 100
    changes = {"weights": weights, "shapes": np.full(T, 3e37), "intercepts": np.full(T, -40.0)}
    predictor = open_model(model(tmp_path, changes, weighting="none", dtype="float32")).predictor
    points = sp.csr_array(np.eye(3, D, 1, dtype=np.float32))
    assert np.isfinite(predictor.score(Features(points), output, with_std=True)).all()
    points = sp.csr_array(np.roll(points.toarray(), -2, axis=1))
    assert points[[1], [0]] == 1
    # There is no warning as well: pytest treats warnings as errors.
    with pytest.raises(NumericalError, match=r"^the score of label \d for point 1 is not finite$"):
        predictor.score(Features(points), "utility", with_std=True)
    # The probability is finite: it is one.
    probability, std = predictor.score(Features(points), "probability", with_std=True)
    assert (probability[1, :-1] == 1).all()
    assert (std[1] == 0).all()


#: Invalid values for each array.
INVALID = {
    "topics": [np.full((K, T + 1), 1 / K), np.full((K + 1, T), 1 / (K + 1)), np.ones((K, T)), np.full((K, T, 1), 1 / K)]
    + [np.vstack([np.full((1, T), -0.5), np.full((K - 1, T), 1.5 / (K - 1))])],
    "weights": [np.ones((D - 1, T)), np.ones((D, T + 1)), np.full((D, T), np.nan), np.ones((D, T), int)],
    "intercepts": [np.ones(T + 1), np.full(T, -np.inf), np.array(1.0)],
    "shapes": [np.ones(T + 1), np.zeros(T), np.full(T, np.inf), np.ones(T, int)],
    "precisions": [np.ones(D + 1), np.full(D, -1.0), np.full(D, np.inf)],
    "shares": [np.full(T + 1, 1 / (T + 1)), np.ones(T), np.array([2.0, -1.0, 0.0, 0.0])],
    "topics.extra": [np.ones(2)],
}


def fit(changes, stated=T):
    parameters = random_parameters("float64") | changes
    return BMLPLPredictor.parameters_fit(BMLPLSettings(topics=stated), parameters, D, K)


def test_valid_parameters_are_accepted(tmp_path):
    open_model(model(tmp_path))
    assert fit({}, None)
    # They may be rounded, of either type, and in the other byte order.
    for dtype in ("<f4", ">f4", ">f8"):
        assert fit({name: value.astype(dtype) for name, value in random_parameters("float64").items()})


def test_invalid_parameters_are_refused(tmp_path):
    for name, values in INVALID.items():
        for value in values:
            assert not fit({name: value}), (name, value)
            # Also if the settings do not fix the number of topics.
            assert not fit({name: value}, None), (name, value)
    # More topics than the settings have, and none.
    assert not fit({}, T - 1)
    empty = {"topics": np.ones((K, 0)), "weights": np.ones((D, 0))}
    assert not fit(empty | dict.fromkeys(("intercepts", "shapes", "shares"), np.ones(0)), None)
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_model(model(tmp_path, {"shapes": None}))


BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])

#: Relative error of three terms of the series of the logarithm.
SERIES_ERROR = 8e-6


def random_model(K=6, T=3, D=4, seed=0):
    random = np.random.default_rng(seed)
    return {
        "topics": random.dirichlet(np.full(K, 0.3), T).T,
        "weights": random.normal(size=(D, T)),
        "intercepts": random.normal(size=T),
        "shapes": random.gamma(1.0, size=T),
    }


def predictor_of(parameters, dtype=np.float64):
    D = len(parameters["weights"])
    return BMLPLPredictor(BMLPLSettings(dtype=np.dtype(dtype).name), UNWEIGHTED, parameters, D)


def direct(parameters, scales):
    """Return Σ_t r_t log(1 + v_kt e^ψ_t), B×K, in double precision."""
    return (parameters["shapes"] * np.log1p(scales[:, None] * parameters["topics"])).sum(axis=2)


def std_of_all_labels(predictor, scales, output, K=6):
    labels = np.ascontiguousarray(np.broadcast_to(np.arange(K), (len(scales), K)))
    return predictor.std(scales, labels, output)


@each_value(dtype=[np.float32, np.float64], width=[1, 4, 50, 1000])
def test_rates_agree_with_the_formula_for_all_scales_and_blocks(width, dtype):
    model = random_model(K=50, T=9, seed=4)
    model["topics"][:, 2] = 0
    model["topics"][7, 2] = 1
    random = np.random.default_rng(5)
    model = {name: value.astype(dtype) for name, value in model.items()}
    scales = np.exp(random.uniform(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS, (30, 9))).astype(dtype)
    predictor = predictor_of(model, dtype)
    result = np.hstack(
        [predictor.scores(scales, slice(start, start + width), "utility") for start in range(0, 50, width)]
    )
    assert result.dtype == dtype
    expected = direct({name: value.astype(float) for name, value in model.items()}, scales.astype(float))
    np.testing.assert_allclose(result, expected, rtol=1.5e-5 if dtype == np.float32 else SERIES_ERROR)


@each_value(dtype=[np.float32, np.float64], least=[0.0, 1e-37, 1e-30, 1e-16])
def test_rates_of_tiny_weights_are_accurate_for_the_largest_scale(least, dtype):
    model = {"topics": np.array([[1.0, 1.0], [least, least / 2]]), "shapes": np.array([1.5, 0.1])}
    model |= {"weights": np.zeros((1, 2)), "intercepts": np.zeros(2)}
    scales = np.full((1, 2), np.exp(LARGEST_LOG_ODDS), dtype)
    result = predictor_of(model, dtype).scores(scales, slice(1, 2), "utility")
    np.testing.assert_allclose(result, direct(model, scales.astype(float))[:, 1:], rtol=2e-5)


@each_value(dtype=[np.float32, np.float64], log_odds=[-LARGEST_LOG_ODDS, 0, LARGEST_LOG_ODDS])
def test_std_is_finite_for_all_scales(log_odds, dtype):
    T = 300
    model = {"topics": np.ones((1, T)), "shapes": np.ones(T), "weights": np.zeros((1, T)), "intercepts": np.zeros(T)}
    scales = np.full((1, T), np.exp(log_odds), dtype)
    predictor = predictor_of(model, dtype)
    assert np.isfinite(std_of_all_labels(predictor, scales, "utility", 1)).all()
    std = std_of_all_labels(predictor, scales, "probability", 1)
    assert std.dtype == dtype
    assert (std >= 0).all()
    assert (std <= 0.5).all()
    if log_odds < 0:
        # For tiny activations the probability is the rate.
        np.testing.assert_allclose(std, std_of_all_labels(predictor, scales, "utility", 1), rtol=1e-4)
