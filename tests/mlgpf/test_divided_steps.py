"""Minibatches that are divided among workers: the same gradients and parameters, and what a lost worker costs."""

import contextlib
import itertools
import os
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from xmlgp.cluster.connection import open_cluster
from xmlgp.cluster.files import StoredMatrix
from xmlgp.data.dataset import Dataset
from xmlgp.errors import ClusterError, NumericalError
from xmlgp.gp.likelihood import IndexedRows
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.mlgpf import divided_steps, step_division
from xmlgp.mlgpf.divided_steps import DividedAscent, SharedPoints
from xmlgp.mlgpf.model import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.stochastic import StochasticAscent
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.runtime.threads import limit_cores, one_blas_thread
from xmlgp.training.loop import Loop

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

#: Without quadrature, whose steps are approximate: how precise they are depends on the points that are together.
SMALL = {
    "inducing_count": 6, "basis_size": 9, "factors": 3, "epochs": 4, "batch_size": 16, "learning_rate": 0.05,
    "label_weights": True, "dtype": "float64", "expectations": "jj",
}  # fmt: skip

TOLERANCES = {"float32": 1e-5, "float64": 1e-10}


class Here:
    """Stands for a cluster, and calls functions in this process."""

    def __init__(self, work):
        self.work, self.worker_count, self.threads, self.calls, self.failing = work, 3, 1, [], None

    def new_folder(self, name):
        return Path(tempfile.mkdtemp(prefix=name, dir=self.work))

    def stored(self, matrix):
        return StoredMatrix.of(matrix, self.new_folder("matrix"))

    def call(self, function, parts):
        self.calls.append(parts)
        if len(self.calls) == self.failing:
            raise ClusterError("all workers of the Dask cluster are lost")
        return [function(*part) for part in parts]


@pytest.fixture(autouse=True)
def _divided(monkeypatch):
    """Let steps be divided among all workers, however small they are."""
    monkeypatch.setattr(step_division, "MESSAGE_SECONDS", 0)
    monkeypatch.setattr(step_division, "BYTES_A_SECOND", np.inf)
    monkeypatch.setattr(step_division, "core_count", lambda: 0.5)


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path)


@pytest.fixture(scope="module", params=[1, 2, 3])
def cluster(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMLGP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        # The number of cores of a worker affects rounding.
        with limit_cores(1), open_cluster(workers=request.param) as opened:
            yield opened


def sparse_dataset():
    """Return points with so few features that coordinates are sparse."""
    dataset = small_dataset(D=30)
    features = dataset.features.toarray()
    features[np.random.default_rng(4).random(features.shape) < 0.7] = 0
    return Dataset(sp.csr_array(features), dataset.labels)


def problem(dataset=None, **chosen):
    """Return a data set, its `Preprocessed`, and what follows the points in the arguments of `DividedAscent`."""
    dataset = dataset or small_dataset()
    settings = MLGPFSettings(**SMALL | chosen)
    preprocessed = find_inducing_inputs(dataset.features, settings)
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    return dataset, preprocessed, (MLGPF(settings), coordinates, dataset.labels, preprocessed.inducing)


def both(cluster, dataset, preprocessed, arguments, **options):
    """Return an inference with whole minibatches, and one with divided ones."""
    points = SharedPoints(cluster, dataset.features, preprocessed)
    return StochasticAscent(*arguments), DividedAscent(points, *arguments, **options)


def dense(gradients, K):
    return {name: g.toarray(K) if isinstance(g, IndexedRows) else np.asarray(g) for name, g in gradients.items()}


def assert_close(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        scale = np.abs(value).max(initial=1e-3)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance * scale, err_msg=name)


def compare_gradients(here, tolerance, data=None, **chosen):
    """Make steps with whole minibatches, and compare their values and gradients with those of divided ones."""
    dataset, preprocessed, arguments = problem(data, **chosen)
    whole, divided = both(here, dataset, preprocessed, arguments, parts=3)
    for done in range(2):
        for name, value in divided.arrays().items():
            value[...] = whole.arrays()[name]
        whole.step(0, done)
        divided.step(0, done)
        rows = np.random.default_rng(done).choice(dataset.N, 17, replace=False)
        (value, gradients), (expected, correct) = (each._value_and_gradients(rows, True) for each in (divided, whole))
        assert value == pytest.approx(expected, rel=tolerance)
        for name, gradient in correct.items():
            assert type(gradients[name]) is type(gradient) or not isinstance(gradient, IndexedRows)
            if isinstance(gradient, IndexedRows):
                np.testing.assert_array_equal(gradients[name].indices, gradient.indices)
        assert_close(dense(gradients, dataset.K), dense(correct, dataset.K), tolerance)
    assert {len(parts) for parts in here.calls} == {3}


COMBINATIONS = itertools.product(
    POSTERIORS, ["linear", "se", "se+linear"], [True, False], [None, 2], ["free", "subspace"], TOLERANCES
)


@pytest.mark.parametrize(("posterior", "kernel", "label_weights", "negatives", "inducing", "dtype"), list(COMBINATIONS))
def test_gradients_are_those_of_whole_minibatches(here, posterior, kernel, label_weights, negatives, inducing, dtype):
    chosen = {"posterior": posterior, "kernel": kernel, "label_weights": label_weights, "negatives": negatives}
    compare_gradients(here, TOLERANCES[dtype], inducing=inducing, dtype=dtype, **chosen)


@pytest.mark.parametrize(
    "chosen",
    [
        {"ard": False},
        {"inducing_fixed": True},
        {"sampling": "uniform", "negatives": 3},
        {"weighting": "none"},
        {"expectations": "taylor"},
        {"data": sparse_dataset()},
        {"data": sparse_dataset(), "inducing": "subspace"},
    ],
    ids=["no ard", "fixed", "uniform", "unweighted", "taylor", "sparse", "sparse subspace"],
)
def test_gradients_are_those_of_whole_minibatches_with_other_settings(here, chosen):
    compare_gradients(here, 1e-10, **chosen)


def test_gradients_by_quadrature_are_as_close_as_its_approximations_in_steps(here):
    compare_gradients(here, 1e-3, expectations="quadrature")


def train(inference, *arguments, progress=None):
    loop = Loop(inference, *arguments)
    parameters, history = loop.run(*([progress] if progress else []))
    return parameters, [entry["bound"] for entry in history]


TRAININGS = [{}, {"negatives": 2, "inducing": "subspace", "posterior": "cholesky"}, {"inducing_fixed": True}]


@pytest.mark.parametrize("chosen", TRAININGS, ids=str)
def test_training_is_the_same_as_without_a_cluster(cluster, chosen):
    dataset, preprocessed, arguments = problem(**chosen)
    points = SharedPoints(cluster, dataset.features, preprocessed)
    expected, bounds = train(StochasticAscent, *arguments)
    found, found_bounds = train(DividedAscent, points, *arguments)
    assert_close(found, expected, 1e-8)
    np.testing.assert_allclose(found_bounds, bounds, rtol=1e-10)


def test_training_with_the_same_shards_is_the_same_with_any_number_of_workers(cluster, here):
    dataset, preprocessed, arguments = problem(negatives=2, dtype="float32")
    results = []
    for each in (cluster, here):
        points = SharedPoints(each, dataset.features, preprocessed)
        with limit_cores(1), one_blas_thread():
            results.append(train(DividedAscent, points, *arguments, None, 2))
    (found, found_bounds), (expected, bounds) = results
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name
    assert found_bounds == bounds


def test_each_worker_keeps_the_coordinates_of_its_shard_only(cluster):
    dataset, preprocessed, arguments = problem(epochs=1)
    count = cluster.worker_count
    train(DividedAscent, SharedPoints(cluster, dataset.features, preprocessed), *arguments)
    kept = cluster._client.run(lambda: [key[:2] for key in divided_steps._kept._data._coordinates])
    bounds = [dataset.N * worker // count for worker in range(count + 1)]
    assert sorted(kept.values()) == [[shard] for shard in itertools.pairwise(bounds)]


def test_some_of_the_points(cluster):
    dataset, preprocessed, (model, coordinates, labels, inducing) = problem()
    rows = np.flatnonzero(np.arange(dataset.N) % 7)
    points = SharedPoints(cluster, dataset.features, preprocessed)
    part = model, coordinates.select(rows), labels[rows], inducing
    expected, _ = train(StochasticAscent, *part)
    found, _ = train(DividedAscent, points.select(rows), *part)
    assert_close(found, expected, 1e-8)


@pytest.mark.parametrize("step", [1, 5])
def test_a_killed_worker_does_not_change_the_parameters(cluster, step):
    dataset, preprocessed, arguments = problem(dtype="float32")
    points = SharedPoints(cluster, dataset.features, preprocessed)
    expected, _ = train(DividedAscent, points, *arguments, None, 2)

    class Bar:
        steps = 0

        def update(self, count=1, **facts):
            self.steps += count
            if self.steps == step:
                pids = list(cluster._client.run(os.getpid).values())
                os.kill(pids[0], signal.SIGKILL)

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        yield Bar()

    found, _ = train(DividedAscent, points, *arguments, None, 2, progress=progress)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize(("epoch", "done"), [(0, 0), (0, 1), (1, 0), (1, 2)])
def test_a_failing_step_changes_the_random_generator_only(here, epoch, done):
    _, preprocessed, arguments = problem(negatives=2)
    points = SharedPoints(here, small_dataset().features, preprocessed)
    inference, other = DividedAscent(points, *arguments), DividedAscent(points, *arguments)
    steps = [(e, d) for e in range(2) for d in range(inference.steps_in(e))]
    for place in steps:
        if place == (epoch, done):
            kept = {name: value.copy() for name, value in inference.arrays().items()}
            state = inference.random.bit_generator.state
            here.failing = len(here.calls) + 1
            with pytest.raises(ClusterError):
                inference.step(*place)
            for name, value in inference.arrays().items():
                np.testing.assert_array_equal(value, kept[name], err_msg=name)
            inference.random.bit_generator.state = state
        inference.step(*place)
        other.step(*place)
    for name, value in other.arrays().items():
        assert inference.arrays()[name].tobytes() == value.tobytes(), name


def test_divergence_on_a_worker_raises_an_error_with_advice(cluster):
    dataset, preprocessed, arguments = problem(kernel="se", dtype="float32", epochs=8)
    points = SharedPoints(cluster, dataset.features, preprocessed)
    with pytest.raises(NumericalError, match=r"training diverged after .*try a lower --learning-rate"):
        train(DividedAscent, points, *arguments, 1e20)


def test_shards_follow_the_number_of_workers_from_epoch_to_epoch(here):
    dataset, preprocessed, arguments = problem()
    inference = DividedAscent(SharedPoints(here, dataset.features, preprocessed), *arguments)
    seen = []
    for epoch, workers in enumerate([3, 2, 0]):
        here.worker_count = workers
        for done in range(inference.steps_in(epoch)):
            inference.step(epoch, done)
            here.worker_count = 5
        seen.append({task[0].parts for parts in here.calls for task in parts})
        here.calls.clear()
    assert seen == [{3}, {2}, set()]


def test_each_shard_is_a_range_of_rows_and_has_the_points_in_it(here):
    dataset, preprocessed, _ = problem()
    chosen = np.arange(1, dataset.N, 2)
    points = SharedPoints(here, dataset.features, preprocessed).select(chosen)
    rows = np.array([19, 0, 7, 8, 3])
    parts = points.divide(rows, 4)
    assert [part[:2] for part in parts] == [(0, 10), (10, 20), (30, 40)]
    for start, stop, stored, places in parts:
        np.testing.assert_array_equal(stored + start, chosen[rows[places]])
        assert (stored >= 0).all()
        assert (stored < stop - start).all()
    assert sorted(np.concatenate([places for *_, places in parts])) == [0, 1, 2, 3, 4]


def test_a_worker_forgets_the_coordinates_of_shards_that_it_no_longer_has(here):
    dataset, preprocessed, arguments = problem()
    inference = DividedAscent(SharedPoints(here, dataset.features, preprocessed), *arguments, parts=2)
    inference.step(0, 0)
    tasks = here.calls[-1]
    data, _ = divided_steps._kept.of(tasks[0][0])
    assert len(data._coordinates) == 2
    for _ in range(divided_steps.UNUSED_STEPS * 2 + 1):
        divided_steps.part_gradients(*tasks[0])
    assert [key[:2] for key in data._coordinates] == [(0, 20)]
