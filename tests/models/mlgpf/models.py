"""Models of MLGPF with random parameters, and their utilities by dense formulas."""

import itertools

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

import xmlgp
from tests.gp.reference import conditional, inducing_posterior, random_parameters
from tests.problems import small_dataset, small_features
from xmlgp.api.trained_model import stored_preprocessing
from xmlgp.data.dataset import Dataset, Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.label_weights.posterior import initial_label_weights
from xmlgp.models.mlgpf.settings import MLGPFSettings

D, K, M, R, P, E = 25, 7, 5, 6, 3, 4
SMALL = {
    "inducing_count": M, "inducing_start": "kmeans", "basis_size": R, "factors": P, "dtype": "float64", "epochs": 1,
}  # fmt: skip
DATASET = small_dataset(D=D, K=K)
#: New points, three training points, and one point without features.
KNOWN = DATASET.features.sparse[:3]
NEW = Features(sp.csr_array(sp.vstack([small_features(8, D, seed=9), KNOWN, sp.csr_array((1, D))]), dtype="f4"))
N = NEW.N


def model(path, own=True, **chosen):
    """Write a model with random parameters; return its folder. `own` adds label weights."""
    settings = MLGPFSettings(**SMALL | chosen)
    folder = xmlgp.preprocess(DATASET, path, settings=settings)
    inducing, random = folder.array("preprocess.inducing").astype(float), np.random.default_rng(3)
    _, parameters = random_parameters(
        random, settings.kernel.split("+"), settings.ard, settings.posterior, inducing, P, K, settings.dtype
    )
    if own:
        features = stored_preprocessing(folder).weigh(DATASET.features).astype(np.float32)
        weights = initial_label_weights(features.sparse, DATASET.labels, parameters["bias"], settings.dtype)
        for array in weights.mean, weights.log_variance, weights.log_prior:
            array += random.normal(0, 0.7, array.shape).astype(settings.dtype)
        parameters |= weights.parameters()
    return write(folder, parameters)


def weight_space_model(path, **chosen):
    """Train a model in weight space, with label weights and without neighbours."""
    chosen = {"inducing": "features", "label_weights": True, "neighbours": False} | chosen
    return xmlgp.train(DATASET, path, settings=MLGPFSettings(**SMALL | chosen)).folder


def dense_model(path, **chosen):
    """Train a model in weight space on words and dense features, with neighbours."""
    dense = np.random.default_rng(4).normal(size=(DATASET.N, E)).astype(np.float32)
    dataset = Dataset(Features(DATASET.features.sparse, dense), DATASET.labels)
    settings = MLGPFSettings(**SMALL | {"inducing": "features", "label_weights": True} | chosen)
    return xmlgp.train(dataset, path, settings=settings).folder


def write(folder, changes, settings=None):
    """Replace parameters, or arrays of preprocessing, or remove those that are None; perhaps replace the settings."""
    changes = {name if "preprocess." in name else f"parameters.{name}": value for name, value in changes.items()}
    return ModelFolder.write(
        folder.path,
        settings=settings or folder.settings,
        stage="trained",
        data=folder.description["data"],
        arrays={name: value for name, value in (folder.arrays("") | changes).items() if value is not None},
        history=[{"epoch": 1, "bound": -1.0, "seconds": 0.0}],
    )


def weighted(features=NEW, weighting="root-idf"):
    """Return features as a model weights them."""
    if weighting == "none":
        return features.sparse.toarray().astype(float)
    idf = TfidfTransformer().fit(DATASET.features.sparse).idf_
    return normalize(np.log1p(features.sparse.toarray()) * np.sqrt(idf))


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


def factor_utilities(folder):
    """Return mean and variance of q(f) at the new points."""
    settings, parameters, points = folder.settings, folder.arrays("parameters."), weighted()
    basis = folder.array("preprocess.basis").astype(float) if settings.inducing == "subspace" else np.eye(D)
    inducing = parameters["inducing"] @ basis
    pairs = (points, inducing), (inducing, inducing), (points, points)
    cross, prior, own = (covariance(parameters, settings, *pair, basis) for pair in pairs)
    latent = [
        conditional(cross, prior, own, *inducing_posterior(settings.posterior, parameters, prior, p)) for p in range(P)
    ]
    mean = np.stack([mean for mean, _ in latent], axis=1) @ parameters["loadings"].T + parameters["bias"]
    variance = np.stack([np.diagonal(covariance) for _, covariance in latent], axis=1) @ parameters["loadings"].T ** 2
    if "label_weights.mean" in parameters:
        columns = parameters["label_weights.features"]
        for k, (start, stop) in enumerate(itertools.pairwise(parameters["label_weights.indptr"])):
            x = points[:, columns[start:stop]]
            mean[:, k] += x @ parameters["label_weights.mean"][start:stop]
            variance[:, k] += x**2 @ np.exp(parameters["label_weights.log_variance"][start:stop])
    return mean, variance
