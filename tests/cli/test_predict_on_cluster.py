"""`xmlgp predict` on the workers of a Dask cluster: the output is that of one process, byte for byte."""

import contextlib
import itertools
import json
import re
import shutil
from pathlib import Path

import pytest
from scipy.sparse import csr_array

import xmlgp
from tests.cli.command import run
from tests.cli.texts import as_json, documents
from tests.problems import paired_dataset, small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.cli import predict as command
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import ClusterError
from xmlgp.inputs.points import Block
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.runs import shards as library
from xmlgp.runs.shards import ModelLocation, Scoring, score_blocks
from xmlgp.runs.trained_model import open_predictor
from xmlgp.runtime.atomic_files import FOLDER_LOCK

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

#: More than two shards.
POINTS = 2 * library.ROWS + 300

SMALL = {"factors": 3, "epochs": 2, "batch_size": 16}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with models and data."""
    folder = tmp_path_factory.mktemp("files")
    write_dataset(folder / "points.txt", small_dataset(seed=7, N=POINTS))
    xmlgp.train(
        paired_dataset(),
        folder / "regression",
        settings=MLGPFSettings(**SMALL, inducing="features", label_weights=True),
    )
    settings = MLGPFSettings(**SMALL, inducing="subspace", basis_size=9, inducing_count=6)
    xmlgp.train(small_dataset(), folder / "subspace", settings=settings)
    xmlgp.train(small_dataset(), folder / "topics", settings=BMLPLSettings(topics=3, iterations=3))
    (folder / "train.jsonl").write_text(as_json(documents(60, 0)))
    (folder / "new.jsonl").write_text(as_json(documents(300, 1)))
    xmlgp.train(folder / "train.jsonl", folder / "text", settings=SMALL | {"inducing_count": 6})
    return folder


@pytest.fixture
def on_workers(cluster, files, monkeypatch):
    """Let `--workers` use the cluster that runs; return a function that predicts with it and without."""
    monkeypatch.chdir(files)

    def both(*arguments, stdin=None):
        here = run("predict", "-q", *arguments, stdin=stdin)
        with monkeypatch.context() as patch:
            patch.setattr(command, "work_of", lambda *arguments: contextlib.nullcontext(cluster))
            there = run("predict", "-q", *arguments, "--workers", "2", stdin=stdin)
        assert (here.exit_code, there.exit_code) == (0, 0), there.stderr
        assert there.stdout_bytes == here.stdout_bytes
        assert there.stderr == here.stderr
        assert [file.name for file in cluster._folder.iterdir()] == [FOLDER_LOCK]
        return here.stdout

    return both


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("subspace", ["-k", "all", "--with-std", "--output", "probability"]),
        ("topics", []),
        ("regression", ["--assign", "--with-std", "--no-calibration", "--memory", "1"]),
        ("regression", ["--threshold", "0.2", "-k", "2", "--format", "tsv"]),
    ],
)
def test_every_option_gives_the_scores_of_one_process(on_workers, files, model, options):
    assert on_workers(model, "points.txt", *options).count("\n") > POINTS


def test_text_is_explained(on_workers):
    answers = [json.loads(line) for line in on_workers("text", "new.jsonl", "--explain", "2").splitlines()]
    assert len(answers) == 300
    assert any(label["for"] for label in answers[0]["labels"])


@pytest.mark.parametrize("model", ["regression", "topics"])
def test_scores_do_not_depend_on_the_number_of_cores(on_workers, model, monkeypatch):
    found = set()
    for cores in (1, 3):
        monkeypatch.setattr("xmlgp.runtime.threads._all_cores", lambda cores=cores: cores)
        found.add(run("predict", "-q", model, "points.txt", "-k", "all", "--with-std").stdout)
    assert len(found) == 1


def block(features, start, stop):
    """Return some points as a `Block`."""
    return Block(start + 1, Dataset(features[start:stop], csr_array((stop - start, 0), dtype=bool)))


def test_scores_do_not_depend_on_blocks():
    rows = library.ROWS
    features = small_dataset(seed=7, N=2 * rows + 4).features
    cuts = [0, 1, 700, rows, rows + 1, 2 * rows - 1, 2 * rows + 4]
    pieces = [block(features, a, b) for a, b in itertools.pairwise(cuts)]
    shards = list(library._shards(pieces, lambda: False))
    assert [id for shard in shards for id in shard.ids] == list(range(1, 2 * rows + 5))
    assert [shard.features.N for shard in shards] == [rows, rows, 4]
    assert (shards[1].features.sparse != features[rows : 2 * rows].sparse).nnz == 0


def test_a_model_that_workers_do_not_see_is_one_sentence(cluster, files, tmp_path):
    shutil.copytree(files / "subspace", tmp_path / "gone")
    folder = ModelFolder(tmp_path / "gone")
    blocks = [block(small_dataset().features, 0, 9)]
    scoring = Scoring(open_predictor(folder), ModelLocation.of(folder), AssignmentRule(limit=3))
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(
        ClusterError, match=r"worker tcp://\S+ .* cannot use the shared storage: .*gone: No such file or directory"
    ):
        list(score_blocks(scoring, blocks, cluster))
    shutil.copytree(files / "topics", tmp_path / "gone")
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ .*gone: the model in this folder has changed"):
        list(score_blocks(scoring, blocks, cluster))
    assert [file.name for file in cluster._folder.iterdir()] == [FOLDER_LOCK]


@pytest.mark.parametrize(("cores", "workers"), [(2, 1), (1, 1), (2, 3)])
def test_a_cluster_of_as_many_workers_as_wanted_is_started(files, monkeypatch, tmp_path, cores, workers):
    monkeypatch.setattr("xmlgp.runtime.threads._all_cores", lambda: cores)
    monkeypatch.chdir(files)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    result = run("predict", "topics", "points.txt", "--workers", workers, "-o", tmp_path / "scores")
    assert result.exit_code == 0
    assert re.match(f"{workers} workers? of a Dask cluster; dashboard http://", result.stderr)
    assert (tmp_path / "scores").read_text() == run("predict", "topics", "points.txt").stdout
    assert not list(Path(tmp_path / "cache/cluster").iterdir())
