"""Every benchmark runs on small data and prints a table."""

import importlib
import json

import growth
import harness
import learning
import numpy as np
import packages
import peers
import pytest
import scaling
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp.data.repository_format import read_dataset, write_dataset

QUICK = [word for name in ("epochs=1", "inducing_count=5", "factors=3") for word in ("--set", name)]

#: The arguments of each benchmark, or of a command of it; DATA, FILE, TWO and CORPUS stand for small data of each kind,
#: OUT for a folder.
BENCHMARKS = {
    "assignment": ["DATA", "--peers", "", *QUICK],
    "bmlpl": ["DATA", "-T", "4", "--iterations", "3"],
    "cluster": ["time", "DATA", "--workers", "0", "--options", "-P 3 --epochs 1"],
    "expectations": ["DATA", "--seeds", "1", "--only", "passes", *QUICK],
    "gpc": ["TWO", "-M", "5", "--iterations", "2"],
    "growth": [],
    "learning batches": ["DATA", "--order", "random", "--keep", "OUT", *QUICK],
    "learning labels": ["DATA", "--count", "3", "--points", "2", *QUICK],
    "learning one-label": ["CORPUS", *QUICK],
    "learning sizes": ["CORPUS", "--calls", "2", *QUICK],
    "many_labels": ["--generate", "100", "30", "12", "--features", "8", "--labels", "2", "--generated-peers", ""]
    + ["--options", "--epochs 1 -P 3", "--repeats", "1", "--folder", "OUT"],
    "negatives": ["DATA", "--labels", "30", "--seeds", "1", "--sampled", "3", *QUICK],
    "out_of_core": ["--folder", "OUT", "--scale", "0.0002", "-R", "20", "-M", "10", "-P", "3"],
    "precision": ["--data", "DATA", "--only", "no-calibration", "--seeds", "2", *QUICK],
    "prediction": ["DATA", "--large-labels", "0", "--repeats", "1", "--peers", ""],
    "probabilities": ["DATA", "--strength", "0.5", *QUICK],
    "read": ["FILE"],
    "recipes": ["DATA", "--recipe", "default"],
    "scaling": ["--vary", "N", "--base", "60", "30", "10", *QUICK],
    "step": ["--case", "bibtex s-LINEAR", "--steps", "2"],
    "text": ["corpus", "CORPUS", "--options", "--epochs 1 -P 3 -M 5"],
    "time_to_precision": ["DATA", "--peers", "", *QUICK],
    "topics": ["DATA", "--seeds", "1", "--only", "iterations=20"],
    "two_classes": ["TWO", "--inference", "vi-taylor"],
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the places of small data. Commands run in this process, and no peer is measured."""
    found = {name: tmp_path / name for name in ("DATA", "CORPUS", "OUT")}
    for folder in found.values():
        folder.mkdir()
    found |= {"FILE": found["DATA"] / "train.txt", "TWO": tmp_path / "two.svm"}
    points = np.random.default_rng(0).normal(size=(60, 3))
    dump_svmlight_file(points, np.sign(points[:, 0]), str(found["TWO"]), zero_based=False)
    for name, count in ("train", 60), ("test", 20):
        write_dataset(found["DATA"] / f"{name}.txt", small_dataset(count, seed=count))
        kinds = [("audio player", "sound"), ("word processor", "text")]
        texts = [{"id": str(i), "text": f"{kinds[i % 2][0]} {i}", "labels": [kinds[i % 2][1]]} for i in range(count)]
        (found["CORPUS"] / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))

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
    for constant, value in {"SIZES": [(100, 50)], "FEATURES": 900, "BATCH": 60, "BATCH_LABELS": 40}.items():
        monkeypatch.setattr(growth, constant, value)
    for constant, value in {"CALL_SIZES": (1,), "ONE_LABEL_SIZES": (2, 5), "SMALL": (30, 60, 8), "BATCHES": 2}.items():
        monkeypatch.setattr(learning, constant, value)
    monkeypatch.setattr(scaling, "MULTIPLES", (1, 2))
    return found


#: Those that take longest.
LONG = {"gpc", "growth", "out_of_core", "scaling", "step", "two_classes"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in LONG)) for name in BENCHMARKS]
)
def test_a_benchmark_runs_on_small_data(places, tmp_path, name):
    module, *command = name.split()
    arguments = [*command, *(str(places.get(argument, argument)) for argument in BENCHMARKS[name])]
    module = importlib.import_module(module)
    result = CliRunner().invoke(module.main, [*arguments, "--json", str(tmp_path / "out.json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1
    assert "machine" in json.loads((tmp_path / "out.json").read_text())


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
