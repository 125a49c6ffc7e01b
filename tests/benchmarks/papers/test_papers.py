"""Every experiment of the catalogue runs, stores the results of its cells and reports them correctly."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import cells as module
from benchmarks.papers.catalogue import load_experiment, load_papers
from benchmarks.papers.cells import read_result, run_cell, run_cells
from benchmarks.papers.command import reproduce
from benchmarks.papers.estimate import BESIDE_TRAINING, duration, estimate
from benchmarks.papers.report import collect, write_report, write_table
from tests.cli.command import run, said
from tests.problems import small_dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.errors import CatalogueError, SettingsError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.locks import hold_lock
from xmlgp.runtime.progress import silent

EXPERIMENTS = list(load_papers().experiments)

#: The last experiment of each kind.
ONE_OF_A_KIND = {facts["kind"]: name for name, facts in load_papers().experiments.items()}.values()

ROOT = Path(__file__).parents[3]

#: The results that the repository has.
RESULTS = ROOT / "results"

#: Scale of the number of epochs: leaves one or two epochs.
SHORT = 0.01

#: Scale of the seconds of a training run with a time limit.
BRIEF = 0.002


def in_this_process(cells, results):
    for cell in dict.fromkeys(cells):
        if read_result(cell, results) is None:
            (results / "cells").mkdir(parents=True, exist_ok=True)
            run_cell(cell, results)


@pytest.fixture(scope="module")
def shared_results(tmp_path_factory):
    """Results of cells that several experiments have in common."""
    return tmp_path_factory.mktemp("shared") / "results"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_data_sets_and_recipes(name, catalogue, data):
    experiment = load_experiment(catalogue, name, data)
    assert experiment.missing == ()
    assert experiment.cells


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_every_kind_of_experiment_runs_on_scaled_down_sets(name, catalogue, data, shared_results, monkeypatch):
    monkeypatch.setattr("benchmarks.papers.mlgpf.ROUNDS", 1)
    experiment = load_experiment(catalogue, name, data, epochs_scale=BRIEF if name.startswith("i-") else SHORT)
    assert experiment.missing == ()
    first = [(*row[:3], row[3][:1]) for row in experiment.rows]  # one restart is enough here
    results = shared_results
    in_this_process([cell for *_, some in first for cell in some], results)
    rows = collect(experiment, catalogue.entries, results)
    assert len(rows) == len(experiment.rows)
    markdown, files = write_report(experiment, catalogue.entries, results)
    assert all(row["method"] in markdown for row in rows)
    assert json.loads((results / f"{name}.json").read_text())["rows"] == rows
    if experiment.kind.draw:
        png, pdf = files
        assert png.read_bytes().startswith(b"\x89PNG")
        assert pdf.read_bytes().startswith(b"%PDF")


def test_the_table_has_the_papers_numbers_and_ours(catalogue, data, shared_results):
    experiment = load_experiment(catalogue, "table2", data, ["bibtex"], SHORT)
    in_this_process(experiment.cells, shared_results)
    rows = collect(experiment, catalogue.entries, shared_results)
    line = next(line for line in write_table(experiment, rows, shared_results).splitlines() if "s-LINEAR" in line)
    pattern = r"([\d.]+) / ([\d.]+)(?: ± [\d.]+)? / ([+-][\d.]+)"
    paper, ours, difference = map(float, re.search(pattern, line).groups())
    measured = np.mean([read_result(cell, shared_results)["measures"]["P@1"] for cell in experiment.rows[0][3]])
    assert paper == 59.31
    assert ours == pytest.approx(measured, abs=0.005)
    assert difference == pytest.approx(ours - paper, abs=0.011)
    # Methods without an implementation have published numbers only.
    experiment = load_experiment(catalogue, "table3", data, ["bibtex"], SHORT)
    in_this_process(experiment.cells, shared_results)
    markdown = write_table(experiment, collect(experiment, catalogue.entries, shared_results), shared_results)
    assert "| bibtex | SLEEC (published) |  | 65.08 / — / — |" in markdown


def test_published_results_of_other_methods_stand_below_ours(catalogue, data, shared_results):
    def table(name):
        experiment = load_experiment(catalogue, name, data, ["wiki10-31k"], SHORT)
        in_this_process(experiment.cells[:1], shared_results)
        rows = [row for row in collect(experiment, catalogue.entries, shared_results) if row["dataset"] == "wiki10-31k"]
        return write_table(experiment, rows, shared_results).splitlines()

    # Without nDCG@1 and PSnDCG@1, which are P@1 and PSP@1.
    numbers = "84.17 | 72.46 | 63.37 | 75.22 | 68.22 | 11.68 | 12.73 | 13.69 | 12.47 | 13.14"
    assert f"| wiki10-31k | Parabel (published) |  |  | {numbers} |  |" in table("l-table7")
    lines = table("l-table3")
    assert "| wiki10-31k | Parabel (published) |  |  |  | 12 |  |" in lines  # 0.20 hours
    assert not any("PfastreXML" in line for line in lines)
    (ours,) = (line.split(" | ") for line in lines if "| L-LR |" in line)
    epochs, minutes_an_epoch, minutes = map(float, ours[3:6])
    assert minutes == pytest.approx(epochs * minutes_an_epoch, abs=0.006)


def test_large_data_sets_are_run_once(catalogue, data):
    rows = load_experiment(catalogue, "l-table7", data).rows
    restarts = {dataset: len(cells) for dataset, *_, cells in rows}
    assert restarts == dict.fromkeys(("bibtex", "delicious", "eurlex"), 5) | dict.fromkeys(
        ("wiki10-31k", "amazoncat", "delicious-200k"), 1
    )


@pytest.mark.parametrize("named", [False, True])
def test_topics_have_the_labels_of_highest_weight(named, catalogue, data, tmp_path):
    folder = tmp_path / "delicious"
    shutil.copytree(data / "delicious", folder)
    names = [f"tag {label}" if named else str(label) for label in range(120)]
    if named:
        (folder / "labels.txt").write_text(
            "".join(f"{name}\n" for name in names[: read_dataset(folder / "train.txt").K])
        )
    experiment = load_experiment(catalogue, "b-table4", tmp_path, ["delicious"], 0.1)
    (cell,) = experiment.cells
    in_this_process([cell], tmp_path / "results")
    (row,) = collect(experiment, catalogue.entries, tmp_path / "results")
    train = read_dataset(folder / "train.txt")
    preprocessed = cell.model.preprocess(train.features, cell.settings, silent)
    model = cell.model.train(train.features, train.labels, preprocessed, cell.settings)
    topics = cell.model.topics(model.parameters, 5)
    assert len(row["labels_of_topics"]) == len(topics) > 5
    lines = write_table(experiment, [row], tmp_path / "results").splitlines()
    for topic, kept in zip(topics, row["labels_of_topics"], strict=True):
        assert kept["labels"] == [names[label] for label in topic.labels]
        labels = ", ".join(
            f"{names[label]} {weight:.3f}" for label, weight in zip(topic.labels, topic.weights, strict=True)
        )
        assert f"| delicious | B-EM-CG | {topic.number} | {100 * topic.share:.2f} | {labels} |" in lines


def test_finished_cells_are_not_run_again(catalogue, data, tmp_path, monkeypatch):
    results = tmp_path / "results"
    experiment = load_experiment(catalogue, "table4", data, ["bibtex"], SHORT)
    in_this_process(experiment.cells[:3], results)
    kept = {file.name: file.stat().st_mtime_ns for file in (results / "cells").iterdir()}
    assert len(kept) == 3
    run_cells(experiment.cells, results)
    after = {file.name: file.stat().st_mtime_ns for file in (results / "cells").iterdir()}
    assert len(after) == len(experiment.cells) > 3
    assert kept.items() <= after.items()
    # Without unfinished cells no process starts.
    monkeypatch.setattr(module, "ProcessPoolExecutor", None)
    run_cells(experiment.cells, results)


def test_the_length_of_training_determines_the_name_of_a_cell(catalogue, data):
    def names(scale, name="table2"):
        return {cell.name for cell in load_experiment(catalogue, name, data, ["bibtex"], scale).cells}

    assert names(1) == names(1)
    assert not names(1) & names(0.5)
    # The tables and figures of one paper share their cells.
    assert names(1) == names(1, "figure1") >= names(1, "table5")
    assert names(1, "table3") < names(1)


def test_held_out_points_choose_the_number_of_topics(catalogue, data, tmp_path):
    results = tmp_path / "results"
    experiment = load_experiment(catalogue, "b-table2", data, ["bibtex"], 0.05)
    in_this_process(experiment.cells[:1], results)
    result = read_result(experiment.cells[0], results)
    assert len(result["choice"]) > 1
    assert str(result["topics"]) == max(result["choice"], key=result["choice"].get)
    areas = [result["measures"][f"AUC_{average}"] for average in ("instance", "micro", "macro")]
    assert all(0 < area < 1 for area in areas)
    (line,) = (
        line
        for line in write_table(experiment, collect(experiment, catalogue.entries, results), results).splitlines()
        if "| B-EM-CG |" in line
    )
    assert f"| 0.9210 | {' | '.join(f'{area:.4f}' for area in areas)} |" in line


def test_timed_cells_run_one_at_a_time(catalogue, data, tmp_path, monkeypatch):
    experiments = [
        load_experiment(catalogue, name, data, epochs_scale=SHORT) for name in ("b-table3", "b-figure2-left")
    ]
    cells = [cell for experiment in experiments for cell in experiment.cells]
    batches = []
    monkeypatch.setattr(
        module, "_run_in_processes", lambda cells, results, progress, max_workers: batches.append((cells, max_workers))
    )
    run_cells(cells, tmp_path / "results")
    (together, _), (alone, workers) = batches
    assert together == experiments[0].cells
    assert alone == experiments[1].cells
    assert workers == 1


def test_every_kept_result_belongs_to_an_experiment(catalogue, tmp_path):
    kept = RESULTS / "cells"
    experiments = [load_experiment(catalogue, name, tmp_path)._replace(missing=()) for name in EXPERIMENTS]
    names = {cell.name for experiment in experiments for cell in experiment.cells}
    assert {file.name for file in kept.iterdir()} <= names


def test_results_of_other_data_under_the_same_name_are_kept_apart(catalogue, data, tmp_path):
    def names(folder):
        return {
            cell.name for cell in load_experiment(catalogue, "table4", folder, ["bibtex"])._replace(missing=()).cells
        }

    shape = catalogue["bibtex"].shape
    folder = tmp_path / "bibtex"
    without_files = names(tmp_path)
    folder.mkdir()
    for file, N in ("train.txt", shape.N), ("test.txt", shape.N_test):
        (folder / file).write_text(f"{N} {shape.D} {shape.K}\n")
    assert names(tmp_path) == without_files
    versions = [without_files, names(data)]
    for text in ("100 1836 159\n0 0:1\n", "100 1836 159\n1 0:1\n"):
        (folder / "train.txt").write_text(text)
        versions.append(names(tmp_path))
    assert len(set.union(*versions)) == sum(map(len, versions))
    experiment = load_experiment(catalogue, "table4", tmp_path, ["bibtex"])
    assert experiment.other_sizes == {"bibtex": "train.txt has N 100, D 1836, K 159"}


def test_an_interrupted_reproduction_says_how_to_continue(data, tmp_path, monkeypatch):
    def interrupted(cells, results, progress):
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("benchmarks.papers.command.run_cells", interrupted)
    result = run("table4", "--datasets", "bibtex", "--data", data, "--results", tmp_path, command=reproduce)
    other, _, last = result.stderr.splitlines()
    assert other.startswith(f"bibtex in {data} is not that of the catalogue: train.txt has N ")
    assert last == "interrupted; the same command continues with the unfinished cells"


def test_invalid_experiments_are_refused_in_one_sentence(catalogue, data, tmp_path):
    with pytest.raises(SettingsError, match="table9 is not an experiment; choose from table2"):
        load_experiment(catalogue, "table9", data)
    with pytest.raises(SettingsError, match="table2 has none of these data sets"):
        load_experiment(catalogue, "table2", data, ["toy"])
    wrong = {"kind": "pie"}, {"methods": "s-SE"}, {"colour": "red"}, {"restarts": None}
    for broken in wrong:
        catalogue.experiments["table2"].update(broken)
        with pytest.raises(CatalogueError, match="experiment table2"):
            load_experiment(catalogue, "table2", data)
        catalogue.experiments.update(load_papers().experiments)


def test_names_of_experiments_and_data_sets(tmp_path):
    def note(*arguments):
        # Without data, kept results are printed.
        result = run(*arguments, "--data", tmp_path, "--results", RESULTS, command=reproduce)
        assert result.exit_code == 0, result.output
        return result.stderr.splitlines()[-1]

    assert note("table3", "table3", "--datasets", "BibTeX").startswith("table3: ")
    assert note("table3", "all", "--datasets", "bibtex") == note("all", "--datasets", "bibtex")
    wrong = run("table3", "--datasets", "bibtex deliciuos", "--data", tmp_path, command=reproduce)
    assert said(wrong).endswith(": there is no data set 'deliciuos'; did you mean delicious?")


def test_the_command_prints_the_table(data, tmp_path, monkeypatch):
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(1))
    arguments = ["table4", "figure2", "--datasets", "bibtex", "--epochs-scale", "0.01", "-q"]
    arguments += ["--data", data]
    result = CliRunner().invoke(reproduce, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert result.stdout.count("| bibtex | sf-LINEAR |") == 2
    # It is not the experiment of the paper, whose results stay as they are.
    assert [file.name for file in Path("results").iterdir()] == ["partial"]
    written = {file.name for file in Path("results/partial").iterdir()}
    assert {"cells", "table4.json", "table4.md", "figure2.png", "figure2.pdf"} <= written
    text = "Not the experiment of the paper, but 0.01 of its epochs or seconds of training; data sets: bibtex; seeds: 0"
    assert text in result.stdout
    assert "\nbibtex is not the data set of the catalogue: train.txt has N " in result.stdout
    assert text in Path("results/partial/table4.md").read_text()
    printed = CliRunner().invoke(reproduce, ["--list"])
    assert [line.split()[0] for line in printed.stdout.splitlines()] == EXPERIMENTS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_kept_cells_give_the_tables_beside_them(name, catalogue, tmp_path):
    kept = load_experiment(catalogue, name, tmp_path)._replace(missing=())
    (tmp_path / "cells").symlink_to(RESULTS / "cells")
    before = {ending: (RESULTS / f"{name}.{ending}").read_text() for ending in ("json", "md")}
    (tmp_path / f"{name}.json").write_text(before["json"])
    write_table(kept, collect(kept, catalogue.entries, tmp_path), tmp_path)
    assert {ending: (tmp_path / f"{name}.{ending}").read_text() for ending in before} == before


def test_a_run_replaces_its_own_rows_only(catalogue, data, tmp_path):
    def table(dataset):
        experiment = load_experiment(catalogue, "table4", data, [dataset], SHORT)._replace(epochs_scale=1)
        in_this_process([row[3][0] for row in experiment.rows if row[0] == dataset][:2], tmp_path)
        markdown = write_table(experiment, collect(experiment, catalogue.entries, tmp_path), tmp_path)
        return markdown.splitlines(), json.loads((tmp_path / "table4.json").read_text())

    def dated(dataset, change):
        for file in (tmp_path / "cells").glob(f"{dataset}-*"):
            result = json.loads(file.read_text())
            change(result)
            file.write_text(json.dumps(result))

    one, before = table("bibtex")
    assert [line for line in one if " in all." in line] == one[-1:]
    # Earlier results have no date of their own.
    dated("bibtex", lambda result: (result.pop("date"), result.pop("machine")))
    for row in before["rows"]:
        del row["date"], row["machine"]
    before |= {"date": "2020-02-02", "machine": "an abacus, 1 core, 1 thread(s) a cell"}
    (tmp_path / "table4.json").write_text(json.dumps(before))
    both, after = table("delicious")
    assert after["rows"][:2] == before["rows"]
    assert [row["dataset"] for row in after["rows"]] == ["bibtex"] * 2 + ["delicious"] * 2
    assert both[-2].startswith("bibtex sf-LINEAR, bibtex f-LINEAR: 2020-02-02, an abacus, 1 core, 1 thread(s) a cell; ")
    assert both[-1].startswith(f"delicious sf-LINEAR, delicious f-LINEAR: {after['rows'][2]['date']}, ")
    assert table("delicious") == table("bibtex") == (both, after)


def test_without_data_and_results_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--datasets", "bibtex,eurlex"], ["--epochs-scale", "0.5"]):
        missing = (
            "bibtex, eurlex" if "--datasets" in options else "bibtex, delicious, mediamill, eurlex, rcv1, amazoncat"
        )
        message = f"table2: not in data: {missing}; `xmlgp fetch NAME --into data` downloads them"
        assert said(run("table2", "-q", *options, command=reproduce)) == message
    assert not list(tmp_path.iterdir())


def test_results_are_shown_without_their_data_and_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RESULTS, tmp_path / "results")
    result = run("table2", "--datasets", "delicious", command=reproduce)
    assert result.exit_code == 0
    assert result.stdout == (RESULTS / "table2.md").read_text() + "\n"
    assert result.stderr.splitlines() == [
        "not in data: delicious; `xmlgp fetch NAME --into data` downloads them",
        "table2: 8 rows are kept results, in results, not trained now; --again (AGAIN=1 with make) trains them again",
    ]
    assert run("table2", "figure1", "-q", command=reproduce).exit_code == 0
    for file in RESULTS.glob("*.*"):
        assert (tmp_path / "results" / file.name).read_bytes() == file.read_bytes()


def kept_result(dataset):
    """Return the text of a kept result of MLGPF on a data set."""
    rows = load_experiment(load_papers(), "table2", "nowhere").rows
    cell = next(cells[0] for name, _, _, cells in rows if name == dataset)
    return (RESULTS / "cells" / cell.name).read_text()


def test_a_run_on_other_data_leaves_the_table_of_the_catalogues(data, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.papers.command.run_cells", lambda cells, results, progress: None)
    # What other data give.
    one = json.loads(kept_result("bibtex"))
    monkeypatch.setattr("benchmarks.papers.catalogue.read_result", lambda cell, results: one)
    shutil.copytree(RESULTS, tmp_path / "results")
    arguments = ["table2", "--results", tmp_path / "results", "--data", data, "--datasets", "bibtex"]
    result = run(*arguments, command=reproduce)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0].endswith(f"; its results are kept in {tmp_path}/results/partial")
    assert "bibtex is not the data set of the catalogue" in (tmp_path / "results/partial/table2.md").read_text()
    for file in RESULTS.glob("*.*"):
        assert (tmp_path / "results" / file.name).read_bytes() == file.read_bytes()


def test_data_that_are_not_run_change_no_row(catalogue, data, tmp_path):
    (tmp_path / "bibtex").symlink_to(data / "bibtex")
    (tmp_path / "delicious").mkdir()
    assert load_experiment(catalogue, "table2", tmp_path, ["delicious"]).other_sizes == {}


def test_a_signal_ends_the_running_cells(tmp_path):
    write_dataset(tmp_path / "train.txt", small_dataset())
    write_dataset(tmp_path / "test.txt", small_dataset())
    # The cell would run for an hour.
    program = f"""if True:
        from pathlib import Path
        from benchmarks.papers.cells import run_cells
        from benchmarks.papers.mlgpf import MLGPFCell
        from xmlgp.mlgpf.settings import MLGPFSettings
        from xmlgp.runtime.interrupts import Interrupted, handle_signals

        here = Path({str(tmp_path)!r})
        if __name__ == "__main__":
            with handle_signals():
                try:
                    run_cells([MLGPFCell("toy", here, (0.55, 1.5), MLGPFSettings(epochs=10**6))], here / "results")
                except Interrupted as error:
                    raise SystemExit(error.status)
    """
    (tmp_path / "program.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], env=environment) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while process.poll() is None and len(started := children.read_text().split()) < 2:
            time.sleep(0.05)  # one is the resource tracker of multiprocessing
        time.sleep(1)
        process.terminate()
        assert process.wait(timeout=60) == 143
    # The resource tracker of multiprocessing ends shortly after its parent.
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{child}/exe").exists() for child in started):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list((tmp_path / "results" / "cells").iterdir())


def trained_at_once(cells, results, progress):
    """Stand in for `run_cells`: give each cell without a result the kept one of a cell of its data set."""
    (results / "cells").mkdir(parents=True, exist_ok=True)
    for cell in cells:
        if read_result(cell, results) is None:
            (results / "cells" / cell.name).write_text(kept_result(cell.dataset))
            TRAINED.append(cell.name)


#: The names of the cells that `trained_at_once` has trained.
TRAINED = []


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Return the names of the cells that are trained, in a folder with data of the catalogue's sizes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchmarks.papers.command.run_cells", trained_at_once)
    TRAINED.clear()
    shutil.copytree(RESULTS, tmp_path / "results")
    shape = load_papers()["bibtex"].shape
    folder = tmp_path / "data/bibtex"
    folder.mkdir(parents=True)
    for file, N in ("train.txt", shape.N), ("test.txt", shape.N_test):
        (folder / file).write_text(f"{N} {shape.D} {shape.K}\n")
    return TRAINED


def test_again_trains_all_cells_into_a_folder_of_its_own(trained, monkeypatch):
    arguments = ["table2", "--datasets", "bibtex"]
    before = {file: file.read_bytes() for file in Path("results").rglob("*.*")}
    assert run(*arguments, command=reproduce).exit_code == 0
    assert trained == []
    result = run(*arguments, "--again", command=reproduce)
    assert result.exit_code == 0
    first = list(trained)
    assert len(first) == len(set(first)) == len(load_experiment(load_papers(), "table2", "data", ["bibtex"]).cells)
    assert {file: file.read_bytes() for file in before} == before
    assert re.search(
        rf"^{len(first)} cells to train: (about \d+|less than 2) minutes on \d cores?$", result.stderr, re.M
    )
    # The paper's number, the kept one, the new one, and the differences.
    line = next(line for line in result.stdout.splitlines() if line.startswith("| bibtex | s-LINEAR | P@1 |"))
    paper, kept, again, to_kept, to_paper = (float(cell.split(" ±")[0]) for cell in line.strip("| ").split(" | ")[3:])
    row = json.loads(Path("results/table2.json").read_text())["rows"][0]
    new = json.loads(Path("results/again/table2.json").read_text())["rows"][0]
    assert paper == 59.31
    assert (kept, again) == pytest.approx([of["measures"]["P@1"]["mean"] for of in (row, new)], abs=0.005)
    assert (to_kept, to_paper) == pytest.approx((again - kept, again - paper), abs=0.011)
    assert Path("results/again/table2.md").read_text() + "\n" == result.stdout
    # A run that ended is not an interrupted one.
    assert run(*arguments, "--again", command=reproduce).exit_code == 0
    assert trained == first * 2


def test_two_runs_again_do_not_share_the_folder(trained):
    with hold_lock(Path("results/again/.lock")):
        result = run("table3", "--datasets", "bibtex", "--again", command=reproduce)
    assert result.exit_code == 1
    assert re.search(r"again: process \d+ on .* trains there; wait until it ends$", said(result))
    assert trained == []
    assert run("table3", "--datasets", "bibtex", "--again", "-q", command=reproduce).exit_code == 0


def test_an_interrupted_run_again_goes_on(trained, monkeypatch):
    def interrupted(cells, results, progress):
        trained_at_once(cells[:2], results, progress)
        raise Interrupted(signal.SIGINT)

    # A result of a run that ended counts no more than the kept ones.
    assert run("table3", "--datasets", "bibtex", "--again", "-q", command=reproduce).exit_code == 0
    trained.clear()
    arguments = ["table2", "--datasets", "bibtex", "--again"]
    with monkeypatch.context() as patched:
        patched.setattr("benchmarks.papers.command.run_cells", interrupted)
        assert "the same command continues" in run(*arguments, command=reproduce).stderr
    result = run(*arguments, command=reproduce)
    assert result.stderr.startswith("going on with the run that was interrupted, which has trained 2 of the cells\n")
    cells = load_experiment(load_papers(), "table2", "data", ["bibtex"]).cells
    assert trained == [cell.name for cell in cells]


def test_all_experiments_run_as_far_as_there_are_data(trained):
    result = run("all", "--datasets", "bibtex magic", command=reproduce)
    assert result.exit_code == 0
    assert trained == []
    titles = re.findall("^# (.+)", result.stdout, re.M)
    specs = load_papers().experiments.values()
    assert titles == [spec["title"] for spec in specs if {"bibtex", "magic"} & {*spec["datasets"]}]
    missing = "not in data: magic; `make binary-sets SOURCE=FOLDER` makes them of their published files"
    assert result.stderr.startswith(missing + "\n")
    message = said(run("all", "--datasets", "magic", "--again", "-q", command=reproduce))
    assert message == f"i-figure5: {missing}"
    assert said(run("all", "--datasets", "toy", command=reproduce)) == "no experiment has toy"


def test_the_time_is_estimated_from_kept_cells(trained, monkeypatch):
    monkeypatch.setattr("benchmarks.papers.estimate.core_count", lambda: 2)
    catalogue = load_papers()

    def cost(name, scale, target):
        experiment, full = (load_experiment(catalogue, name, "data", ["bibtex"], of) for of in (scale, 1.0))
        return estimate([(experiment, full)], Path("results"), target)

    rows = [row for row in json.loads(Path("results/table4.json").read_text())["rows"] if row["dataset"] == "bibtex"]
    seeds = len(load_experiment(catalogue, "table4", "data", ["bibtex"]).rows[0][3])
    seconds = np.repeat([row["seconds"] / row["restarts"] for row in rows], seeds)
    whole = cost("table4", 1.0, Path("nowhere"))
    for scale in (1.0, 0.1):
        expected = seconds * scale + BESIDE_TRAINING
        assert cost("table4", scale, Path("nowhere")).seconds == pytest.approx(max(expected.sum() / 2, *expected))
    assert cost("table4", 1.0, Path("results")) == (0, 0.0, 0)
    for file in Path("results/cells").glob("bibtex-*"):
        file.unlink()
    assert cost("table4", 1.0, Path("nowhere")) == (whole.cells, 0.0, whole.cells)
    assert [duration(value) for value in (3, 1200, 9000, 72000)] == [
        "less than 2 minutes",
        "about 20 minutes",
        "about 2.5 hours",
        "about 20 hours",
    ]


def test_the_readme_has_the_row_of_s_linear_of_the_results():
    table = json.loads((RESULTS / "table2.json").read_text())
    lines = (ROOT / "README.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("| `xmlgp train --recipe s-LINEAR`"))
    for row in table["rows"]:
        if row["method"] == "s-LINEAR":
            precision = " / ".join(f"{row['measures'][name]['mean']:.2f}" for name in ("P@1", "P@3", "P@5"))
            assert f"| {precision} |" in line
