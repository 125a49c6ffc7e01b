"""Training and prediction on a Dask cluster give what one process gives, bit for bit."""

import contextlib
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmlgp
from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp.api import predict as library
from xmlgp.api.points import Block
from xmlgp.cli import options
from xmlgp.cli import predict as command
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.models.mlgpf.train import Training
from xmlgp.runtime.errors import ClusterError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

#: More than two shards.
POINTS = 2 * library.SHARD_ROWS + 300

SMALL = {"factors": 3, "epochs": 2, "batch_size": 16}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with models and data."""
    folder = tmp_path_factory.mktemp("files")
    write_dataset(folder / "points.txt", small_dataset(seed=7, N=POINTS))
    settings = SMALL | {"inducing": "features", "label_weights": True}
    xmlgp.train(small_dataset(), folder / "features", settings=settings)
    settings = SMALL | {"inducing": "subspace", "basis_size": 9, "inducing_count": 6}
    xmlgp.train(small_dataset(), folder / "subspace", settings=settings)
    return folder


@pytest.mark.parametrize(
    ("model", "chosen"),
    [("subspace", ["-k", "all", "--with-std", "--output", "probability"]), ("features", ["--assign", "--with-std"])],
)
def test_prediction_gives_the_scores_of_one_process(cluster, files, monkeypatch, model, chosen):
    monkeypatch.chdir(files)
    # Other tests use the same cluster, and a model in memory keeps its files.
    earlier = set(cluster._folder.iterdir())
    here = run("predict", "-q", model, "points.txt", *chosen)
    monkeypatch.setattr(command, "executor_of", lambda *arguments: contextlib.nullcontext(cluster))
    there = run("predict", "-q", model, "points.txt", *chosen, "--workers", "2")
    assert (here.exit_code, there.exit_code) == (0, 0), there.stderr
    assert there.stdout_bytes == here.stdout_bytes
    assert here.stdout.count("\n") > POINTS
    assert set(cluster._folder.iterdir()) <= earlier


def test_training_that_a_lost_cluster_interrupts_resumes_here_with_the_same_model(cluster, tmp_path, monkeypatch):
    data = small_dataset(N=200, D=40, K=80)
    settings = SMALL | {"inducing": "features", "label_weights": True}
    expected = xmlgp.train(data, settings=settings).parameters
    made, original = iter(range(10**6)), Training.step

    def lost(self, epoch, done):
        if next(made) == 15:
            raise ClusterError("all workers of the Dask cluster are lost")
        return original(self, epoch, done)

    monkeypatch.setattr(Training, "step", lost)
    with pytest.raises(ClusterError, match="are lost"):
        xmlgp.train(data, tmp_path / "model", settings=settings, executor=cluster, checkpoint_seconds=1e-6)
    monkeypatch.undo()
    for found in (
        xmlgp.train(data, settings=settings, executor=cluster).parameters,
        xmlgp.train(data, tmp_path / "model", settings=settings, resume=True).parameters,
    ):
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)


def block(features, start, stop):
    """Return some points as a `Block`."""
    points = Dataset(features[start:stop], csr_array((stop - start, 0), dtype=bool))
    return Block(points, range(start + 1, stop + 1))


def test_scores_do_not_depend_on_blocks():
    rows = library.SHARD_ROWS
    features = small_dataset(seed=7, N=2 * rows + 4).features
    cuts = [0, 1, 700, rows, rows + 1, 2 * rows - 1, 2 * rows + 4]
    pieces = [block(features, a, b) for a, b in itertools.pairwise(cuts)]
    shards = list(library._shards(pieces, lambda: False))
    assert [id for ids, _ in shards for id in ids] == list(range(1, 2 * rows + 5))
    assert [part.N for _, part in shards] == [rows, rows, 4]
    assert (shards[1][1].sparse != features[rows : 2 * rows].sparse).nnz == 0


def test_commands_ask_for_a_cluster_in_one_way_only(files, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def opened(**how):
        asked.append(how)
        yield xmlgp.runtime.executor.LOCAL_EXECUTOR

    monkeypatch.setattr(options, "open_executor", opened)
    monkeypatch.chdir(files)
    assert run("predict", "-q", "subspace", "points.txt", "-o", "scores", "--workers", 3).exit_code == 0
    assert asked == [{"scheduler": None, "workers": 3}]
    found = run("predict", "subspace", "points.txt", "--scheduler", "tcp://h:1", "--workers", "2")
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1].endswith("--scheduler and --workers exclude each other.")
