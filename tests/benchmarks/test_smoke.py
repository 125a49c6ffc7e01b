"""Every benchmark runs on small data and prints a table."""

import importlib
import json
import sys

import pytest
from click.testing import CliRunner

from benchmarks import __main__ as dispatcher
from benchmarks import harness, packages, peers
from tests.problems import small_dataset
from xmlgp.cli import main
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset

QUICK = [word for name in ("epochs=1", "inducing_count=5", "factors=3") for word in ("--set", name)]

#: The arguments of each benchmark; DATA, CORPUS and TEXTS stand for small data of each kind, MODEL for a model of text,
#: OUT for a folder, PICTURE for a file.
BENCHMARKS = {
    "many_labels": ["--generate", "100", "30", "12", "--features", "8", "--labels", "2", "--generated-peers", ""]
    + ["--options", "--epochs 1 -P 3", "--repeats", "1", "--folder", "OUT"],
    "neighbours": ["DATA", "--count", "5", "--copies", "2", "--searches", "xmlgp,SciPy,scikit-learn"],
    "out_of_core": ["--folder", "OUT", "--scale", "0.0002", "-R", "20", "-M", "10", "-P", "3"],
    "precision": ["--data", "DATA", "--only", "no-calibration", *QUICK],
    "prediction": ["DATA", "--large-labels", "0", "--repeats", "1", "--peers", ""],
    "probabilities": ["DATA", "--strength", "0.5", "--peers", "", *QUICK],
    "scaling": ["--points", "100", "--points", "200", "--workers", "0", "--folder", "OUT", "--picture", "PICTURE"],
    "text": ["CORPUS", "--options", "--epochs 1 -P 3 -M 5"],
    "time_to_precision": ["DATA", "--peers", "", *QUICK],
}

#: These start clusters or new processes, or other tools.
NOT_RUN = {"cluster", "frozen", "packages", "peers", "small_sets", "start"}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the places of small data. Commands run in this process, and no peer is measured."""
    found = {name: tmp_path / name for name in ("DATA", "CORPUS", "OUT")}
    for folder in found.values():
        folder.mkdir()
    for name, count in ("train", 60), ("test", 20):
        write_dataset(found["DATA"] / f"{name}.txt", small_dataset(count, seed=count))
        kinds = [("audio player", "sound"), ("word processor", "text")]
        texts = [{"id": str(i), "text": f"{kinds[i % 2][0]} {i}", "labels": [kinds[i % 2][1]]} for i in range(count)]
        (found["CORPUS"] / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))

    def command(*arguments, **options):
        result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(harness, "xmlgp", command)
    monkeypatch.setattr(
        harness, "run_xmlgp", lambda *args, **options: command(*args) and None or harness.Usage(1, 1, 1)
    )
    monkeypatch.setattr(harness, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(peers, "measure", lambda *arguments, **options: {})
    found["PICTURE"] = tmp_path / "scale.svg"
    return found


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_on_small_data(places, tmp_path, name):
    module = importlib.import_module(f"benchmarks.{name}")
    arguments = [str(places.get(argument, argument)) for argument in BENCHMARKS[name]]
    result = CliRunner().invoke(module.main, [*arguments, "--json", str(tmp_path / "out.json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1
    assert "machine" in json.loads((tmp_path / "out.json").read_text())


def test_each_benchmark_has_a_name(monkeypatch):
    assert {*dispatcher.NAMES} == BENCHMARKS.keys() | NOT_RUN
    monkeypatch.setattr("sys.argv", ["benchmarks", "none"])
    with pytest.raises(SystemExit, match="NAME is one of cluster"):
        dispatcher.main()


def test_processes_that_a_benchmark_starts_find_its_functions(monkeypatch):
    found = []
    monkeypatch.setattr(harness, "has_data", lambda folder: found.append(hasattr(sys.modules["__main__"], "measure")))
    monkeypatch.setattr("sys.argv", ["benchmarks", "many_labels", "DATA"])
    monkeypatch.delitem(sys.modules, "benchmarks.many_labels", raising=False)
    with pytest.raises(SystemExit, match="0"):
        dispatcher.main()
    assert found == [True]


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
