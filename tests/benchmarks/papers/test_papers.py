"""Every kind of experiment runs, keeps the results of its cells and reports them; the kept results give the tables."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.papers import cells as module
from benchmarks.papers.catalogue import load_experiment, load_papers
from benchmarks.papers.cells import read_results, run_cells
from benchmarks.papers.command import reproduce
from benchmarks.papers.report import collect, table, write_report

EXPERIMENTS = list(load_papers().experiments)

#: The last experiment of each kind.
ONE_OF_A_KIND = {facts["kind"]: name for name, facts in load_papers().experiments.items()}.values()

#: The results that the repository has.
RESULTS = Path(__file__).parents[3] / "results"

#: Scale of the number of epochs, which leaves one or two, and of the seconds of a training run with a time limit.
SHORT, BRIEF = 0.01, 0.002


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a folder for the results of cells that several experiments have in common."""
    return tmp_path_factory.mktemp("shared") / "results"


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(1))
    monkeypatch.setattr("benchmarks.papers.mlgpf.ROUNDS", 1)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_every_kind_of_experiment_runs_on_scaled_down_sets(name, catalogue, data, results):
    experiment = load_experiment(catalogue, name, data, epochs_scale=BRIEF if name.startswith("i-") else SHORT)
    assert experiment.missing == ()
    # One data set and one restart are enough here.
    first = [row[3][0] for row in experiment.rows if row[0] == experiment.rows[0][0]]
    run_cells(first, results)
    markdown = write_report(experiment, catalogue.entries, results)
    rows = collect(experiment, catalogue.entries, read_results(results))
    assert len(rows) == len(first)
    assert all(row["method"] in markdown for row in rows)
    if experiment.kind.draw:
        assert (results / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_the_papers_numbers_and_ours(catalogue, data, results):
    experiment = load_experiment(catalogue, "table2", data, ["bibtex"], SHORT)
    run_cells(experiment.rows[0][3][:2], results)
    kept = read_results(results)
    markdown = table(experiment, collect(experiment, catalogue.entries, kept))
    line = next(line for line in markdown.splitlines() if "s-LINEAR" in line)
    paper, ours, difference = map(float, re.search(r"([\d.]+) / ([\d.]+)(?: ± [\d.]+)? / ([+-][\d.]+)", line).groups())
    measured = np.mean([kept[cell.name]["measures"]["P@1"] for cell in experiment.rows[0][3] if cell.name in kept])
    assert paper == 59.31
    assert ours == pytest.approx(measured, abs=0.005)
    assert difference == pytest.approx(ours - paper, abs=0.011)


def test_finished_cells_are_not_run_again(catalogue, data, tmp_path, monkeypatch):
    cells = load_experiment(catalogue, "table4", data, ["bibtex"], SHORT).cells[:3]
    run_cells(cells[:2], tmp_path)
    kept = read_results(tmp_path)
    run_cells(cells, tmp_path)
    after = read_results(tmp_path)
    assert len(after) == 3
    assert kept.items() <= after.items()
    # Without unfinished cells no process starts.
    monkeypatch.setattr(module, "ProcessPoolExecutor", None)
    run_cells(cells, tmp_path)


def test_the_length_of_training_determines_the_name_of_a_cell(catalogue, data):
    def names(scale, name="table2"):
        return {cell.name for cell in load_experiment(catalogue, name, data, ["bibtex"], scale).cells}

    assert not names(1) & names(0.5)
    # The tables and figures of one paper share their cells.
    assert names(1) == names(1, "figure1") >= names(1, "table5")


def test_other_data_under_the_same_name_give_other_names_of_cells(catalogue, data, tmp_path):
    def names(folder):
        experiment = load_experiment(catalogue, "table4", folder, ["bibtex"])._replace(missing=())
        return {cell.name for cell in experiment.cells}

    folder = tmp_path / "bibtex"
    folder.mkdir()
    shape = catalogue["bibtex"].shape
    for file, N in ("train.txt", shape.N), ("test.txt", shape.N_test):
        (folder / file).write_text(f"{N} {shape.D} {shape.K}\n")
    assert names(tmp_path) == names("nowhere")
    assert not names(data) & names("nowhere")


def test_held_out_points_choose_the_number_of_topics(catalogue, data, results):
    cell = load_experiment(catalogue, "b-table2", data, ["bibtex"], 0.05).cells[0]
    run_cells([cell], results)
    result = read_results(results)[cell.name]
    assert len(result["choice"]) > 1
    assert str(result["topics"]) == max(result["choice"], key=result["choice"].get)


def test_timed_cells_run_one_at_a_time(catalogue, data, tmp_path, monkeypatch):
    names = ("b-table3", "b-figure2-left")
    first, second = (load_experiment(catalogue, name, data, epochs_scale=SHORT).cells for name in names)
    batches = []
    monkeypatch.setattr(
        module, "_run_in_processes", lambda cells, folder, note, workers: batches.append((cells, workers))
    )
    run_cells(first + second, tmp_path)
    (together, _), (alone, workers) = batches
    assert (together, alone, workers) == (first, second, 1)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_kept_cells_give_the_tables_beside_them(name, catalogue):
    experiment = load_experiment(catalogue, name, "nowhere")
    markdown = table(experiment, collect(experiment, catalogue.entries, read_results(RESULTS)))
    assert markdown == (RESULTS / f"{name}.md").read_text()


def test_every_kept_result_belongs_to_an_experiment(catalogue):
    experiments = [load_experiment(catalogue, name, "nowhere") for name in EXPERIMENTS]
    names = {cell.name for experiment in experiments for *_, cells in experiment.rows for cell in cells}
    assert read_results(RESULTS).keys() <= names


def test_the_command_prints_the_table(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["table4", "figure2", "--datasets", "bibtex", "--epochs-scale", "0.01", "--data", str(data)]
    result = CliRunner().invoke(reproduce, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("| bibtex | sf-LINEAR |") == 2
    # It is not the experiment of the paper, whose results stay as they are.
    assert [file.name for file in Path("results").iterdir()] == ["partial"]
    written = {file.name for file in Path("results/partial").iterdir()}
    assert {"cells.json", "table4.md", "figure2.png"} <= written
    text = "Not the experiment of the paper, but 0.01 of its epochs or seconds of training; data sets: bibtex; seeds: 0"
    assert text in Path("results/partial/table4.md").read_text()
    assert "\nbibtex is not the data set of the catalogue: train.txt has N " in result.stdout


def test_without_data_kept_results_are_shown_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(reproduce, ["table2", "--datasets", "bibtex", "--results", str(RESULTS)])
    assert result.stdout == (RESULTS / "table2.md").read_text() + "\n"
    result = CliRunner().invoke(reproduce, ["table2", "--datasets", "bibtex,eurlex"])
    assert result.exit_code == 1
    assert result.stderr == "Error: not in data: bibtex, eurlex; `xmlgp fetch NAME --into data` downloads them\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table99"], "table99 is not an experiment; choose from table2,"),
        (["table2", "--datasets", "german"], "table2 has none of these data sets; it has bibtex"),
        (["all", "--datasets", "toy"], "no experiment has toy"),
    ],
)
def test_invalid_names_are_refused_in_one_sentence(arguments, sentence):
    result = CliRunner().invoke(reproduce, arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_results_of_cells_are_plain_json():
    lines = (RESULTS / "cells.json").read_text().splitlines()
    assert len(lines) == len(json.loads("\n".join(lines))) + 2
