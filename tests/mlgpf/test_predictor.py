"""Predictions against Monte Carlo over q(u) and p(h* | u) by dense formulas."""

import dataclasses
import io
import itertools
import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from tests.gp.reference import inducing_posterior, random_parameters
from tests.grids import each_value
from tests.problems import small_dataset, small_features
from xmlgp.errors import ModelFolderError, NumericalError
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.label_weights.pattern import label_features
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction import predictor as module
from xmlgp.prediction.scores_file import write_scores
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.runs.preprocess import preprocess_model
from xmlgp.runs.stored import open_predictor
from xmlgp.runs.train import train_model
from xmlgp.runtime import threads

D, K, M, R, P = 25, 7, 5, 6, 3
SMALL = {
    "inducing_count": M,
    "inducing_start": "kmeans",
    "basis_size": R,
    "factors": P,
    "dtype": "float64",
    "epochs": 1,
}
NEW = small_features(8, D, seed=9)
DRAWS = 10_000


def model(path, own=True, **chosen):
    """Write a model with random parameters, none of them small or symmetric; `own` adds label weights."""
    settings = MLGPFSettings(**SMALL | chosen)
    dataset = small_dataset(D=D, K=K)
    folder = preprocess_model(dataset, path, settings)
    inducing = folder.array("preprocess.inducing").astype(float)
    random = np.random.default_rng(3)
    _, parameters = random_parameters(
        random, settings.kernel.split("+"), settings.ard, settings.posterior, inducing, P, K
    )
    if own:
        indptr, features = label_features(dataset.features, dataset.labels)
        parameters |= {
            "label_weights.mean": random.normal(size=len(features)),
            "label_weights.log_variance": random.normal(-2, 0.5, len(features)),
            "label_weights.log_prior": random.normal(size=D),
        }
    parameters = {name: value.astype(settings.dtype) for name, value in parameters.items()}
    if own:
        parameters |= {"label_weights.indptr": indptr, "label_weights.features": features}
    return write(folder, {f"parameters.{name}": value for name, value in parameters.items()})


def weight_space_model(path):
    """Train a model in weight space, with label weights."""
    settings = MLGPFSettings(**SMALL | {"inducing": "features", "label_weights": True, "regression_points": 0})
    return train_model(small_dataset(D=D, K=K), path, settings)


def weighted(features):
    """Return features as a model of `small_dataset` weights them."""
    idf = TfidfTransformer().fit(small_features(40, D)).idf_
    return normalize(np.log1p(features.toarray()) * np.sqrt(idf))


def write(folder, changes, settings=None):
    """Replace arrays, or remove those that are None."""
    stored = {name: value for name, value in (folder.arrays("") | changes).items() if value is not None}
    return ModelFolder.write(
        folder.path,
        settings=settings or folder.settings,
        stage="trained",
        data=folder.description["data"],
        arrays=stored,
        history=[{"epoch": 1, "bound": -1.0, "seconds": 0.0}],
    )


def covariance(parameters, settings, left, right, basis):
    """Return the kernel in feature space. With ARD, directions outside the subspace have relevance one."""
    total = 0
    for term in settings.kernel.split("+"):
        relevance = np.exp(parameters.get(f"kernel.{term}.log_relevance", np.zeros(len(basis))))
        metric = np.eye(left.shape[1]) + basis.T @ ((relevance - 1)[:, None] * basis)
        variance = np.exp(parameters[f"kernel.{term}.log_variance"])
        if term == "linear":
            total = total + variance * left @ metric @ right.T
        else:
            difference = left[:, None] - right
            squares = np.einsum("ijd,de,ije->ij", difference, metric, difference)
            total = total + variance * np.exp(-squares / (2 * np.exp(2 * parameters["kernel.se.log_lengthscale"])))
    return total


def utilities_by_monte_carlo(folder, features):
    """Return draws of f for each point, from q(u), then p(h* | u), and q(W), DRAWS×N×K."""
    settings, parameters = folder.settings, folder.arrays("parameters.")
    points = weighted(features)
    basis = np.eye(D) if settings.inducing == "free" else folder.array("preprocess.basis").astype(float)
    inducing = parameters["inducing"] @ basis
    prior = covariance(parameters, settings, inducing, inducing, basis)
    cross = covariance(parameters, settings, points, inducing, basis)
    own = covariance(parameters, settings, points, points, basis)
    weights = np.linalg.solve(prior, cross.T).T
    left_over = np.diag(own) - np.einsum("im,im->i", weights, cross)
    random = np.random.default_rng(0)
    latent = np.empty((DRAWS, len(points), P))
    for p in range(P):
        mean, spread = inducing_posterior(settings.posterior, parameters, prior, p)
        u = random.multivariate_normal(mean, spread, DRAWS, method="cholesky")
        latent[:, :, p] = u @ weights.T + np.sqrt(np.maximum(left_over, 0)) * random.normal(size=(DRAWS, len(points)))
    utilities = latent @ parameters["loadings"].T + parameters["bias"]
    if "label_weights.mean" in parameters:
        for k, (start, stop) in enumerate(itertools.pairwise(parameters["label_weights.indptr"])):
            deviation = np.exp(parameters["label_weights.log_variance"][start:stop] / 2)
            drawn = random.normal(parameters["label_weights.mean"][start:stop], deviation, (DRAWS, stop - start))
            utilities[:, :, k] += drawn @ points[:, parameters["label_weights.features"][start:stop]].T
    return utilities


def assert_agrees(found, draws):
    """Assert that values match the means of draws, and that these means are precise."""
    error = draws.std(axis=0) / np.sqrt(DRAWS)
    assert np.abs((found - draws.mean(axis=0)) / error).max() < 5
    assert error.max() < 0.05 * np.ptp(found)


KERNELS = [("linear", True), ("se+linear", False)]


@each_value(posterior=list(POSTERIORS), inducing=["free", "subspace"], kernel=KERNELS, own=[True, False])
def test_scores_agree_with_monte_carlo(tmp_path, posterior, inducing, kernel, own):
    folder = model(tmp_path, own, posterior=posterior, inducing=inducing, kernel=kernel[0], ard=kernel[1], nodes=30)
    draws = utilities_by_monte_carlo(folder, NEW)
    predictor = open_predictor(folder)
    utility, std = predictor.score(NEW, "utility", with_std=True)
    assert_agrees(utility, draws)
    assert_agrees(std**2, (draws - utility) ** 2)
    probability, std = predictor.score(NEW, "probability", with_std=True)
    draws = expit(draws)
    assert_agrees(probability, draws)
    assert_agrees(std**2, (draws - probability) ** 2)


def test_moments_in_weight_space_agree_with_dense_formulas(tmp_path):
    folder = weight_space_model(tmp_path)
    parameters, points = folder.arrays("parameters."), weighted(NEW)
    indptr, features, mean, log_variance = (
        parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance")
    )
    own, own_variance = (sp.csr_array((a, features, indptr), (K, D)).toarray() for a in (mean, np.exp(log_variance)))
    loadings, variance = parameters["loadings"], np.exp(parameters["latent_weights.log_variance"])
    expected = points @ parameters["latent_weights.mean"] @ loadings.T + parameters["bias"] + points @ own.T
    spread = np.outer(points**2 @ variance, (loadings**2).sum(axis=1)) + points**2 @ own_variance.T
    utility, std = open_predictor(folder).score(NEW, "utility", with_std=True)
    # Points are weighted in single precision.
    np.testing.assert_allclose(utility, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std**2, spread, rtol=1e-5)


@pytest.mark.parametrize("output", ["utility", "probability"])
def test_standard_deviations_are_optional(tmp_path, output):
    predictor = open_predictor(model(tmp_path))
    scores, nothing = predictor.score(NEW, output)
    assert nothing is None
    np.testing.assert_allclose(scores, predictor.score(NEW, output, with_std=True)[0], rtol=1e-9)
    assert next(predictor.top(NEW, 3, output)).std is None


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_scores_of_points_without_features_are_the_biases(tmp_path, posterior):
    folder = model(tmp_path, posterior=posterior)
    nothing = sp.csr_array((2, D), dtype=np.float32)
    mean, std = open_predictor(folder).score(nothing, "utility", with_std=True)
    np.testing.assert_allclose(mean, np.tile(folder.array("parameters.bias"), (2, 1)))
    # A linear kernel has zero variance at the origin.
    np.testing.assert_allclose(std, 0, atol=1e-6)
    probability, std = open_predictor(folder).score(nothing, "probability", with_std=True)
    np.testing.assert_allclose(probability, expit(mean), rtol=1e-9)
    assert np.abs(std).max() < 1e-6


@each_value(posterior=list(POSTERIORS), output=module.OUTPUTS)
def test_non_finite_scores_raise(tmp_path, posterior, output):
    predictor = open_predictor(model(tmp_path, posterior=posterior, weighting="none", dtype="float32"))
    large = NEW[:3].copy()
    large.data[large.indptr[1] : large.indptr[2]] = 3e38
    # There is no warning either: tests turn warnings into errors.
    with pytest.raises(NumericalError, match=r"^the score of label \d for point 1 is not finite$"):
        predictor.score(large, output, with_std=True)
    with pytest.raises(NumericalError, match=r"^the score of label \d for point 1 is not finite$"):
        write_scores(io.BytesIO(), 3, K, predictor.top(large, None, output, with_std=True))
    # Rows of unit length have no large values.
    weighted = open_predictor(model(tmp_path, posterior=posterior, weighting="unit", dtype="float32"))
    assert np.isfinite(weighted.score(large, output, with_std=True)).all()


def test_no_points(tmp_path):
    predictor = open_predictor(model(tmp_path))
    assert list(predictor.top(sp.csr_array((0, D), dtype=np.float32), 3)) == []


def test_single_precision_agrees_with_double(tmp_path):
    double = open_predictor(model(tmp_path / "double"))
    single = open_predictor(model(tmp_path / "single", dtype="float32"))
    for output in ("utility", "probability"):
        for found, expected in zip(single.score(NEW, output, True), double.score(NEW, output, True), strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_trained_model_predicts_its_training_points(tmp_path):
    dataset = small_dataset(D=D, K=K)
    folder = train_model(dataset, tmp_path, MLGPFSettings(**SMALL | {"epochs": 60, "learning_rate": 0.05}))
    probability = open_predictor(folder).score(dataset.features, "probability")[0]
    labels = dataset.labels.toarray()
    log_loss = -np.where(labels, np.log(probability), np.log1p(-probability)).mean()
    frequency = labels.mean(axis=0)
    assert log_loss < -0.8 * np.where(labels, np.log(frequency), np.log1p(-frequency)).mean()


@each_value(k=[1, K, 1000], output=["utility", "probability"])
def test_top_labels_agree_with_a_full_sort(tmp_path, k, output):
    predictor = open_predictor(model(tmp_path))
    (scores,) = predictor.top(NEW, k, output, with_std=True)
    values, std = predictor.score(NEW, output, with_std=True)
    kept = min(k or K, K)
    order = np.argsort(-values, axis=1)[:, :kept]
    assert (scores.N, scores.K) == (8, K)
    np.testing.assert_array_equal(np.diff(scores.indptr), kept)
    np.testing.assert_array_equal(scores.labels.reshape(8, kept), order)
    np.testing.assert_allclose(scores.scores.reshape(8, kept), np.take_along_axis(values, order, axis=1), rtol=1e-12)
    np.testing.assert_allclose(scores.std.reshape(8, kept), np.take_along_axis(std, order, axis=1), rtol=1e-7)
    # Without standard deviations a faster path gives the same result.
    (alone,) = predictor.top(NEW, k, output)
    np.testing.assert_array_equal(alone.labels, scores.labels)
    np.testing.assert_allclose(alone.scores, scores.scores, rtol=1e-12)


@pytest.mark.parametrize(("k", "settings"), [(20, {"posterior": "diagonal"}), (5, {"inducing": "features"})], ids=str)
def test_the_best_of_many_labels_are_those_of_highest_probability(tmp_path, k, settings):
    many = small_dataset(N=200, D=D, K=90)
    chosen = {"factors": 5, "epochs": 8, "label_weights": "inducing" in settings, "regression_points": 0}
    folder = train_model(many, tmp_path, MLGPFSettings(**SMALL | chosen | settings))
    predictor = open_predictor(folder)
    points = small_features(100, D, seed=9)
    (top,) = predictor.top(points, k)
    probabilities, _ = predictor.score(points, "probability")
    order = np.argsort(-probabilities, axis=1)[:, :k]
    np.testing.assert_array_equal(top.labels.reshape(order.shape), order)
    found = top.scores.reshape(order.shape)
    np.testing.assert_allclose(found, np.take_along_axis(probabilities, order, axis=1), rtol=1e-9)
    utilities, _ = predictor.score(points, "utility")
    assert (np.argsort(-utilities, axis=1)[:, :k] != order).any()


@pytest.mark.parametrize("ranking", module.OUTPUTS)
def test_the_default_output_is_what_the_settings_rank_by(tmp_path, ranking):
    predictor = open_predictor(model(tmp_path, ranking=ranking))
    assert predictor.default_output == ranking
    np.testing.assert_array_equal(predictor.score(NEW)[0], predictor.score(NEW, ranking)[0])
    np.testing.assert_array_equal(next(predictor.top(NEW, 3)).scores, next(predictor.top(NEW, 3, ranking)).scores)


@pytest.mark.parametrize(
    "settings", [{}, {"own": False, "inducing": "subspace", "kernel": "se", "posterior": "cholesky"}], ids=str
)
def test_means_without_variances_agree_with_those_with_variances(tmp_path, settings):
    predictor = open_predictor(model(tmp_path, **settings))
    (alone,) = predictor.top(NEW, None, "utility")
    values, _ = predictor.score(NEW, "utility")
    np.testing.assert_allclose(alone.matrix.toarray(), values, rtol=1e-10)


@each_value(rows=[1, 3, 100], labels=[1, 2, 100], memory=[0, 1])
def test_chunk_sizes_do_not_change_scores(tmp_path, monkeypatch, rows, labels, memory):
    predictor = open_predictor(model(tmp_path, posterior="cholesky", inducing="subspace"))
    (whole,) = predictor.top(NEW, 3, with_std=True)
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "LABELS", labels)
    pieces = list(predictor.top(NEW, 3, with_std=True, memory=memory))
    assert len(pieces) == (1 if memory else 8)
    assert sum(piece.N for piece in pieces) == 8
    for name in ("labels", "scores", "std"):
        joined = np.concatenate([getattr(piece, name) for piece in pieces])
        np.testing.assert_allclose(joined, getattr(whole, name), rtol=1e-9)


@each_value(
    inducing=["free", "subspace", "features"], kernel=["linear", "se"], posterior=["shared-diagonal", "cholesky"]
)
def test_scores_do_not_depend_on_the_number_of_cores(monkeypatch, inducing, kernel, posterior):
    """With matrices so large that work is divided, and that BLAS would use several threads."""
    kernel = "linear" if inducing == "features" else kernel
    settings = MLGPFSettings(
        inducing=inducing, kernel=kernel, posterior=posterior, inducing_count=200, basis_size=300, factors=100, epochs=1
    )
    dataset = small_dataset(N=700, D=900, K=150)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    parameters = train(dataset.features, dataset.labels, preprocessed, settings).parameters
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(threads, "_all_cores", lambda cores=cores: cores)
        predictor = MLGPFPredictor(settings, preprocessed, parameters, 900)
        outputs = (predictor.top(dataset.features, 5, output) for output in ("utility", "probability"))
        found.append([scores.scores for scores in itertools.chain(*outputs)])
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("k", "posterior"), [(5, "cholesky")])
def test_memory_is_bounded(tmp_path, k, posterior):
    predictor = open_predictor(model(tmp_path, posterior=posterior))
    many = small_features(3000, D, seed=4)
    # Compiles what is not in the cache.
    list(predictor.top(NEW, k, "probability", with_std=True))
    tracemalloc.start()
    pieces = 0
    for _ in predictor.top(many, k, "probability", with_std=True, memory=2):
        pieces += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pieces > 1
    assert peak < 4 << 20


DAMAGE = {
    "inducing": [None, (M - 1, D), (M, D - 1), ()],
    "loadings": [(K - 1, P), (K, P + 1), (K,)],
    "bias": [(K + 1,), (K, 2)],
    "posterior.mean": [(M + 1, P), (M, P + 1)],
    "kernel.linear.log_variance": [(2,)],
    "kernel.linear.log_relevance": [(D + 1,)],
}
POSTERIOR_DAMAGE = {
    "shared-diagonal": ("posterior.log_diagonal", [(M + 1,)]),
    "diagonal": ("posterior.log_diagonal", [(P + 1, M)]),
    "cholesky": ("posterior.whitened_factor", [None, (P + 1, M, M), (P, M, M - 1)]),
}
CASES = [("shared-diagonal", name, shape) for name, shapes in DAMAGE.items() for shape in shapes]
CASES += [(posterior, name, shape) for posterior, (name, shapes) in POSTERIOR_DAMAGE.items() for shape in shapes]


@pytest.mark.parametrize(("posterior", "name", "shape"), CASES)
def test_parameters_of_wrong_shapes_are_rejected(tmp_path, posterior, name, shape):
    folder = model(tmp_path, posterior=posterior)
    folder = write(folder, {f"parameters.{name}": None if shape is None else np.ones(shape)})
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_predictor(folder)


@each_value(name=["linear.log_variance", "se.log_variance", "se.log_lengthscale"], shape=[(1,), (0,)])
def test_kernel_parameters_must_be_scalars(tmp_path, name, shape):
    folder = model(tmp_path, kernel="se+linear")
    open_predictor(folder)
    folder = write(folder, {f"parameters.kernel.{name}": np.zeros(shape)})
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_predictor(folder)


WEIGHT_SPACE_DAMAGE = {
    "latent_weights.mean": [None, (D + 1, P), (D, P + 1)],
    "latent_weights.log_variance": [(D + 1,), (D, 1)],
    "latent_weights.log_prior": [(D + 1,)],
    "inducing": [(M, D)],
}


@pytest.mark.parametrize(
    ("name", "shape"), [(name, shape) for name, shapes in WEIGHT_SPACE_DAMAGE.items() for shape in shapes]
)
def test_parameters_of_wrong_shapes_are_rejected_in_weight_space(tmp_path, name, shape):
    folder = weight_space_model(tmp_path)
    folder = write(folder, {f"parameters.{name}": None if shape is None else np.ones(shape)})
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_predictor(folder)


@each_value(name=["mean", "log_variance", "log_prior"], dtype=["int64", "float32"])
def test_parameters_of_wrong_types_are_rejected_in_weight_space(tmp_path, name, dtype):
    folder = weight_space_model(tmp_path)
    array = folder.array(f"parameters.latent_weights.{name}").astype(dtype)
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_predictor(write(folder, {f"parameters.latent_weights.{name}": array}))


@pytest.mark.parametrize("changes", [{"ard": False}, {"kernel": "se"}, {"kernel": "linear"}])
def test_settings_that_need_other_parameters_are_rejected(tmp_path, changes):
    folder = model(tmp_path, own=False, kernel="se+linear", ard=True, label_weights=False)
    check_rejected(folder, MLGPFSettings(**vars(folder.settings) | changes))


def test_a_model_without_the_label_weights_of_its_settings_is_rejected(tmp_path):
    folder = weight_space_model(tmp_path)
    check_rejected(folder, dataclasses.replace(folder.settings, label_weights=False))


def check_rejected(folder, settings):
    data, arrays = folder.description["data"], folder.arrays("")
    history = folder.description["history"]
    facts = {"settings": settings, "stage": "trained", "data": data, "arrays": arrays, "history": history}
    with pytest.raises(ModelFolderError, match="its arrays do not fit each other$"):
        open_predictor(ModelFolder.write(folder.path, **facts))


@pytest.mark.parametrize("name", ["extra", "label_weights.extra"])
def test_unknown_parameters_are_rejected(tmp_path, name):
    folder = write(model(tmp_path), {f"parameters.{name}": np.ones(2)})
    with pytest.raises(ModelFolderError, match="its arrays do not fit each other$"):
        open_predictor(folder)


def test_zero_inducing_inputs_are_rejected(tmp_path):
    folder = model(tmp_path, posterior="cholesky")
    empty = {"mean": np.ones((0, P)), "factor": np.ones((P, 0, 0))}
    empty = {"inducing": np.ones((0, D))} | {f"posterior.whitened_{name}": array for name, array in empty.items()}
    folder = write(folder, {f"parameters.{name}": array for name, array in empty.items()})
    with pytest.raises(ModelFolderError, match="its arrays do not fit each other$"):
        open_predictor(folder)


@pytest.mark.filterwarnings("error")
def test_overflow_of_inducing_inputs_raises_without_a_warning(tmp_path):
    folder = model(tmp_path)
    folder = write(folder, {"parameters.inducing": np.full((M, D), 3e38, np.float32)})
    with pytest.raises(NumericalError, match="not finite"):
        open_predictor(folder)


@pytest.mark.parametrize("changes", [{"kernel": "se"}, {"posterior": "cholesky"}, {"posterior": "diagonal"}], ids=str)
def test_settings_of_another_kernel_or_posterior_are_rejected(tmp_path, changes):
    folder = model(tmp_path)
    with pytest.raises(ModelFolderError, match="do not fit"):
        open_predictor(write(folder, {}, MLGPFSettings(**vars(folder.settings) | changes)))


def test_preprocessing_arrays_of_wrong_shapes_are_rejected(tmp_path):
    folder = write(model(tmp_path), {"preprocess.idf": np.ones(D - 1)})
    with pytest.raises(ModelFolderError, match="do not fit its settings"):
        open_predictor(folder)


def test_number_of_labels_in_the_description_is_checked(tmp_path):
    model(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    description["data"]["K"] = K + 1
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(ModelFolderError, match="do not fit each other"):
        open_predictor(ModelFolder(tmp_path))
