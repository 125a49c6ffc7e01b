"""Arrays of untrusted models that do not fit each other, or the settings, are refused with one sentence."""

import functools
import json
import shutil

import numpy as np
import pytest

from tests.damage import around, changed_at, longer, shorter
from tests.grids import each_value
from tests.models.mlgpf.models import DATASET, NEW, D, K, M, P, dense_model, model, weight_space_model, write
from xmlgp.api.trained_model import open_model
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.runtime.errors import ModelFolderError, NumericalError


def missing(array):
    return None


def column(array):
    return array[..., None]


def narrower(array):
    return array[:, :-1].copy()


def scalar(array):
    return array.flat[0]


def one(array):
    return np.ones(1)


def integers(array):
    return array.astype(np.int64 if array.dtype != np.int64 else np.int32)


def single(array):
    return array.astype(np.float32)


def double(array):
    return array.astype(np.float64)


SHAPES = [missing, shorter, column, scalar, integers]
ROW_ENDS = [changed_at(0, 1), changed_at(2, -5), changed_at(2, 10**9), changed_at(-1, 10**9), around]
POINTS = DATASET.N
PLACES = [changed_at(0, -1), changed_at(-1, D), changed_at(1, 2**31 - 1)]
KINDS = {
    "shared-diagonal": lambda path: model(path, own=False, kernel="se+linear"),
    "diagonal": lambda path: model(path, posterior="diagonal"),
    "cholesky": lambda path: model(path, posterior="cholesky"),
    "label weights": model,
    "weight space": weight_space_model,
    "neighbours": dense_model,
}
DAMAGE = {
    "shared-diagonal": {
        "inducing": [missing, shorter, narrower, scalar, lambda array: array[:0]],
        "loadings": [shorter, narrower, column, scalar],
        "bias": [one, longer, column],
        "posterior.mean": [shorter, narrower],
        "posterior.log_diagonal": [longer],
        "kernel.linear.log_variance": [one],
        "kernel.linear.log_relevance": [longer],
        "kernel.se.log_variance": [one],
        "kernel.se.log_lengthscale": [one],
    },
    "diagonal": {"posterior.log_diagonal": [shorter]},
    "cholesky": {"posterior.whitened_factor": [missing, shorter, narrower]},
    "label weights": {
        "label_weights.indptr": [*SHAPES, longer, *ROW_ENDS],
        "label_weights.features": [*SHAPES, longer, *PLACES],
        "label_weights.mean": [shorter],
        "label_weights.log_variance": [missing, column],
        "label_weights.log_prior": [longer, scalar],
    },
    "weight space": {
        "latent_weights.mean": [missing, longer, narrower, integers, single],
        "latent_weights.log_variance": [longer, column, integers, single],
        "latent_weights.log_prior": [longer, integers, single],
    },
    "neighbours": {
        **{f"neighbours.{name}": [*SHAPES, longer, *ROW_ENDS] for name in ("indptr", "starts", "label_indptr")},
        "neighbours.indices": [*SHAPES, longer, *PLACES],
        "neighbours.row_of": [*SHAPES, longer, changed_at(0, -1), changed_at(-1, POINTS)],
        "neighbours.labels": [*SHAPES, longer, changed_at(0, -1), changed_at(-1, K)],
        "neighbours.column_of": [*SHAPES, longer, changed_at(0, -2), changed_at(-1, D), changed_at(-1, 10**9)],
        "neighbours.columns": [missing, shorter, narrower, integers, lambda array: array[:0]],
        "neighbours.code_of": [*SHAPES, longer],
        "neighbours.highest": [*SHAPES, double, changed_at(0, -1), changed_at(0, np.nan)],
        "neighbours.values": [*SHAPES, double, changed_at(0, np.inf)],
        "neighbours.choices": [
            *SHAPES,
            longer,
            *(changed_at(place, value) for place, value in [(0, 0), (1, -1), (2, 0), (3, -0.1), (3, 1.1), (4, -1)]),
            *(changed_at(place, value) for place in range(5) for value in (np.nan, np.inf)),
        ],
        "neighbours.recall": [*SHAPES, longer, changed_at(0, -0.1), changed_at(1, 1.1)],
        "neighbours.dense_values": [missing, shorter, narrower, integers, changed_at((0, 0), np.nan)],
        "neighbours.dense_center": [*SHAPES, longer, single],
        "neighbours.dense_width": [*SHAPES, longer, changed_at(0, 0), changed_at(0, np.inf)],
        "statistics.labels": [*SHAPES, longer, changed_at(0, -1)],
        "latent_weights.log_prior": [missing],
    },
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Return a function that returns a folder with the model of a kind, which tests must not change."""
    return functools.cache(lambda kind: KINDS[kind](tmp_path_factory.mktemp("model")).path)


@pytest.fixture
def model_of(shelf, tmp_path):
    """Return a function that returns the folder of a model of a kind."""
    return lambda kind: ModelFolder(shutil.copytree(shelf(kind), tmp_path, dirs_exist_ok=True))


def assert_rejected(folder):
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$") as caught:
        open_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name", "damage"),
    [(kind, name, damage) for kind, arrays in DAMAGE.items() for name in arrays for damage in arrays[name]],
)
def test_damaged_arrays_are_rejected(model_of, kind, name, damage):
    folder = model_of(kind)
    assert_rejected(write(folder, {name: damage(folder.array(f"parameters.{name}"))}))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("shared-diagonal", {"extra": np.ones(2)}),
        ("label weights", {"label_weights.means": np.ones(3)}),
        ("label weights", {"bias": np.zeros(1), "label_weights.indptr": np.zeros(2, np.int64)}),
        ("weight space", {"inducing": np.ones((M, D))}),
        ("neighbours", {"statistics.labels": None}),
        ("neighbours", {f"neighbours.dense_{name}": None for name in ("values", "center", "width")}),
        (
            "neighbours",
            {
                "neighbours.dense_values": np.ones((POINTS, 1)),
                "neighbours.dense_center": np.ones(1),
                "neighbours.dense_width": np.ones(1),
            },
        ),
        (
            "cholesky",
            {
                "inducing": np.ones((0, D)),
                "posterior.whitened_mean": np.ones((0, P)),
                "posterior.whitened_factor": np.ones((P, 0, 0)),
            },
        ),
    ],
)
def test_unknown_or_inconsistent_arrays_are_rejected(model_of, kind, changes):
    assert_rejected(write(model_of(kind), changes))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("shared-diagonal", {"ard": False}),
        ("shared-diagonal", {"kernel": "se"}),
        ("shared-diagonal", {"kernel": "linear"}),
        ("shared-diagonal", {"posterior": "cholesky"}),
        ("shared-diagonal", {"posterior": "diagonal"}),
        ("weight space", {"label_weights": False}),
    ],
)
def test_settings_that_need_other_parameters_are_rejected(model_of, kind, changes):
    folder = model_of(kind)
    assert_rejected(write(folder, {}, MLGPFSettings(**folder.settings.mapping() | changes)))


@each_value(change=[1, -1, 0], described=[True, False, True])
def test_another_number_of_labels_is_rejected(tmp_path, change, described):
    # Loadings and biases agree with each other, and in one case with the description.
    folder = model(tmp_path)
    loadings, bias = (folder.array(f"parameters.{name}") for name in ("loadings", "bias"))
    write(folder, {"loadings": np.resize(loadings, (K + change, P)), "bias": np.resize(bias, K + change)})
    if described:
        description = json.loads((tmp_path / "model.json").read_text())
        description["data"]["K"] = K + (change or 1)
        (tmp_path / "model.json").write_text(json.dumps(description))
    assert_rejected(ModelFolder(tmp_path))


def test_preprocessing_arrays_of_wrong_shapes_are_rejected(tmp_path):
    folder = write(model(tmp_path), {"preprocess.idf": np.ones(D - 1)})
    with pytest.raises(ModelFolderError, match="do not fit its settings"):
        open_model(folder)


def test_overflow_of_inducing_inputs_raises_without_a_warning(tmp_path):
    folder = write(model(tmp_path), {"inducing": np.full((M, D), 3e38, np.float32)})
    with pytest.raises(NumericalError, match="not finite"):
        open_model(folder)


def test_byte_order_of_arrays_does_not_change_predictions(tmp_path):
    folder = model(tmp_path)
    before = open_model(folder).predictor
    arrays = folder.arrays("parameters.")
    changes = {name: arrays[name].astype(arrays[name].dtype.newbyteorder()) for name in arrays}
    folder = write(folder, changes)
    for name, array in changes.items():
        assert folder.description["arrays"][f"parameters.{name}"]["dtype"] == array.dtype.str != arrays[name].dtype.str
    after = open_model(folder).predictor
    for found, expected in zip(*(predictor.score(NEW, with_std=True) for predictor in (after, before)), strict=True):
        np.testing.assert_array_equal(found, expected)
