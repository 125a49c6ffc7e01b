"""Every benchmark runs on small data and prints a table."""

import importlib
import json

import dense_peers
import harness
import label_index
import many_label_prediction
import numpy as np
import packages
import peers
import pytest
import repeated_labels
import scaling
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

import xmlgp
from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.scores_file import read_scores

QUICK = [word for name in ("epochs=1", "inducing_count=5", "factors=3") for word in ("--set", name)]

#: The arguments of each benchmark, or of a command of it; DATA, FILE, TWO, CORPUS and TEXTS stand for small data of
#: each kind, MODEL for a model of text, OUT for a folder.
BENCHMARKS = {
    "assignment": ["DATA", "--peers", "", *QUICK],
    "bmlpl": ["DATA", "-T", "4", "--iterations", "3"],
    "cluster": ["DATA", "--workers", "0", "--options", "-P 3 --epochs 1"],
    "compare": ["DATA", "--weighted", "--peers", "", *QUICK],
    "dense table": ["CORPUS", "--tools", "xmlgp", "--keep", "OUT", "--options", "--epochs 1 -P 3"],
    "dense kernels": ["CORPUS", "--options", "--epochs 1 -P 3"],
    "dense sizes": ["--points", "300", "--width", "4", "--labels", "8", "--words", *QUICK],
    "expectations": ["DATA", "--seeds", "1", "--only", "passes", *QUICK],
    "gpc": ["TWO", "-M", "5", "--iterations", "2"],
    "many_labels": ["--generate", "100", "30", "12", "--features", "8", "--labels", "2", "--generated-peers", ""]
    + ["--options", "--epochs 1 -P 3", "--repeats", "1", "--folder", "OUT"],
    "negatives": ["DATA", "--labels", "30", "--seeds", "1", "--sampled", "3", *QUICK],
    "optimise": ["DATA", "-k", "2", "--peers", "", *QUICK],
    "out_of_core": ["--folder", "OUT", "--scale", "0.0002", "-R", "20", "-M", "10", "-P", "3"],
    "precision": ["--data", "DATA", "--only", "no-calibration", "--seeds", "2", *QUICK],
    "prediction": ["DATA", "--large-labels", "0", "--repeats", "1", "--peers", ""],
    "probabilities": ["DATA", "--strength", "0.5", "--peers", "", *QUICK],
    "read": ["FILE"],
    "recipes": ["DATA", "--recipe", "default"],
    "scaling": ["--vary", "N", "--base", "60", "30", "10", *QUICK],
    "start": ["--text", "MODEL", "--repeats", "1", "--warm"],
    "step": ["--case", "bibtex s-LINEAR", "--steps", "2"],
    "text": ["corpus", "CORPUS", "--options", "--epochs 1 -P 3 -M 5"],
    "time_to_precision": ["DATA", "--peers", "", *QUICK],
    "topics": ["DATA", "--seeds", "1", "--only", "iterations=20"],
    "topics ": ["DATA", "--seeds", "1", "--readable"],
    "two_classes": ["TWO", "--inference", "vi-taylor"],
    "unknown": ["DATA", "--share", "0.3", "--model", "mlgpf", *QUICK],
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the places of small data. Commands run in this process, and no peer is measured."""
    found = {name: tmp_path / name for name in ("DATA", "CORPUS", "OUT")}
    for folder in found.values():
        folder.mkdir()
    found |= {"FILE": found["DATA"] / "train.txt", "TWO": tmp_path / "two.svm"}
    found |= {"TEXTS": found["CORPUS"] / "test.jsonl", "MODEL": tmp_path / "model"}
    points = np.random.default_rng(0).normal(size=(60, 3))
    dump_svmlight_file(points, np.sign(points[:, 0]), str(found["TWO"]), zero_based=False)
    for name, count in ("train", 60), ("test", 20):
        write_dataset(found["DATA"] / f"{name}.txt", small_dataset(count, seed=count))
        kinds = [("audio player", "sound"), ("word processor", "text")]
        texts = [{"id": str(i), "text": f"{kinds[i % 2][0]} {i}", "labels": [kinds[i % 2][1]]} for i in range(count)]
        (found["CORPUS"] / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
        np.save(found["CORPUS"] / f"{name}-minilm.npy", np.random.default_rng(count).normal(size=(count, 4)))

    def command(*arguments, **options):
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(harness, "xmlgp", command)
    monkeypatch.setattr(
        harness, "run_xmlgp", lambda *args, **options: command(*args) and None or harness.Usage(1, 1, 1)
    )
    monkeypatch.setattr(harness, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(peers, "measure", lambda *arguments, **options: {})
    monkeypatch.setattr(scaling, "MULTIPLES", (1, 2))
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_on_small_data(places, tmp_path, name):
    module, *command = name.split()
    if "MODEL" in BENCHMARKS[name]:
        xmlgp.train(places["CORPUS"] / "train.jsonl", places["MODEL"], settings={"epochs": 1, "inducing_count": 5})
    arguments = [*command, *(str(places.get(argument, argument)) for argument in BENCHMARKS[name])]
    module = importlib.import_module(module)
    result = CliRunner().invoke(module.main, [*arguments, "--json", str(tmp_path / "out.json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1
    assert "machine" in json.loads((tmp_path / "out.json").read_text())


def test_a_model_with_repeated_labels_predicts(places, tmp_path):
    settings = {"epochs": 1, "factors": 3, "inducing": "features", "label_weights": True, "regression_points": 0}
    model, many = tmp_path / "model", tmp_path / "many"
    xmlgp.train(places["DATA"], model, settings=settings)
    arguments = [str(model), str(many), "--labels", "50", "--weights", "120"]
    result = CliRunner().invoke(repeated_labels.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lengths = np.diff(xmlgp.load(many).parameters["label_weights.indptr"])
    assert len(lengths) == 50
    assert 0 < lengths.sum() <= 120
    assert lengths.min() >= 1
    arguments = [str(places["DATA"]), str(model), str(many), "--peers", "", "--repeats", "1"]
    result = CliRunner().invoke(many_label_prediction.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "many, probability" in result.stdout


def test_recall_of_an_index_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(label_index.indexing, "FEWEST_LABELS", 1)
    dataset = small_dataset(N=60, K=12)
    for part in "train", "test":
        write_dataset(tmp_path / f"{part}.txt", dataset)
    settings = {"label_weights": True, "factors": 3, "epochs": 1, "regression_points": 0}
    xmlgp.train(dataset, tmp_path / "model", settings=settings)
    arguments = [tmp_path / "model", tmp_path, "--points", 40, "--repeats", 1, "--figure", tmp_path / "figure.svg"]
    result = CliRunner().invoke(label_index.main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "| exact | 1 |" in result.stdout
    assert "<svg" in (tmp_path / "figure.svg").read_text()


def test_data_sets_of_packages_can_be_read(tmp_path):
    about = "Package: p{0:02}\nDescription-md5: {0}\n"
    kinds = [("sound", "audio player"), ("text", "word processor")] * 10
    index = [f"{about}Depends: lib{kind}\nTag: works-with::{kind}\n\n" for kind, _ in kinds]
    translation = [f"{about}Description-en: {words}\n {words} number n{{0}}\n\n" for _, words in kinds]
    for name, entries in ("packages", index), ("translation", translation):
        (tmp_path / name).write_text("".join(entry.format(i) for i, entry in enumerate(entries)))
    options = ["--packages", tmp_path / "packages", "--translation", tmp_path / "translation"]
    result = CliRunner().invoke(packages.main, list(map(str, [*options, tmp_path / "out"])), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    train, test = (read_dataset(tmp_path / "out" / "tags" / f"{part}.txt") for part in ("train", "test"))
    assert (train.N, test.N, train.D, train.K) == (15, 5, 5, 2)


@pytest.mark.parametrize("part", ["words", "dense", "both"])
@pytest.mark.parametrize("tool", ["svm", "logistic", "neighbours"])
def test_other_tools_learn_from_each_part(tmp_path, tool, part):
    random = np.random.default_rng(0)
    K, arrays = 8, []
    for name, count in ("train", 120), ("test", 30):
        labels = random.integers(0, K, (count, 1)) == np.arange(K)
        labels = sp.csr_array(labels)
        write_dataset(tmp_path / f"{name}.txt", Dataset(Features(labels.astype(np.float32)), labels))
        np.save(tmp_path / f"{name}.npy", labels.toarray() + 0.01 * random.normal(size=labels.shape))
        arrays.append(tmp_path / f"{name}.npy")
    found = dense_peers.measure(tool, part, tmp_path, arrays, tmp_path / "scores")
    assert found["chosen"]
    assert found["peak_mb"] > 0
    assert evaluate_ranking(read_scores(tmp_path / "scores").matrix, labels)["P@1"] == 100
