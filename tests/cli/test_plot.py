"""`xmlgp plot`: the models and files it accepts, its notes and its errors."""

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.figures import drawn
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset

__all__ = ["drawn"]

# The point without a label counts as well.
DATA = "3 2 3\n0,2 0:1\n1 1:0.5\n 0:1\n"
ALL = "3 3\n0:0.9 1:0.8 2:0.7\n1:0.5 2:0.4 0:0.1\n0:0.6 1:0.3 2:0.2\n"
TOP = "3 3\n0:0.9\n1:0.5 2:0.4\n\n"

SMALL = {
    "gp": ["-P", "2", "--epochs", "2"],
    "topics": ["--model", "bmlpl", "--iterations", "3"],
    "samples": ["--model", "bmlpl", "--inference", "gibbs", "--iterations", "1"],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    for name, content in {"test.txt": DATA, "all.scores": ALL, "top.scores": TOP}.items():
        (tmp_path / name).write_text(content)


def test_bounds_and_log_posteriors(tmp_path, drawn):
    write_dataset(tmp_path / "train.txt", small_dataset())
    for model in ("topics", "gp", "samples"):
        assert run("train", "train.txt", model, "-q", "--no-cache", *SMALL[model]).exit_code == 0
    result = run("plot", "bound", "topics", "gp", "samples")
    assert (result.exit_code, result.output) == (0, "bound.png\n")
    assert (tmp_path / "bound.png").read_bytes().startswith(b"\x89PNG")
    axes = drawn[0].axes
    assert [axis.get_ylabel() for axis in axes] == ["log posterior", "lower bound"]
    assert [names_of(axis)[:2] for axis in axes] == [["topics", "samples"], ["gp"]]


def names_of(axis):
    return [line.get_label() for line in axis.get_lines() if not line.get_label().startswith("_")]


def test_a_scores_file_is_a_curve_with_its_measures(tmp_path, drawn):
    result = run("plot", "reliability", "all.scores", "test.txt")
    assert (result.exit_code, result.stdout) == (0, "reliability.png\n")
    assert result.stderr.splitlines() == ["The curve of all.scores is over all 3 labels of each point"]
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
    # Each of the nine probabilities is in a bin of its own.
    names = names_of(drawn[0].axes[0])
    assert names == ["calibrated", "all.scores: log loss 0.5419, ECE 0.3667", "fewer than 50 entries"]


def test_a_name_that_is_not_utf_8_is_drawn(tmp_path, drawn):
    (tmp_path / "a\udce9.scores").write_text(ALL)
    assert run("plot", "reliability", "-q", "a\udce9.scores", "test.txt").exit_code == 0
    assert names_of(drawn[0].axes[0])[1].startswith(r"a\xe9.scores: log loss ")


def test_json_lines_and_a_corpus_give_the_curve_of_numbers(tmp_path, drawn):
    rows = [
        [("c", 0.7), ("b", 0.8), ("a", 0.9)],
        [("b", 0.5), ("c", 0.4), ("a", 0.1)],
        [("a", 0.6), ("b", 0.3), ("c", 0.2)],
    ]
    points = [{"labels": [{"label": name, "probability": p} for name, p in row]} for row in rows]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    (tmp_path / "new.csv").write_text("text,labels\nx,a;c\ny,b\nz,\n")
    for scores, data in ("all.scores", "test.txt"), ("p.jsonl", "new.csv"):
        assert run("plot", "reliability", scores, data, "-o", "a.png").stdout == "a.png\n"
    numbers, names = ([line.get_xydata().tolist() for line in figure.axes[0].lines] for figure in drawn)
    assert numbers == names


def test_reliability_of_the_best_labels(drawn):
    result = run("plot", "reliability", "all.scores", "-", "test.txt", "-k", "2", "-o", "-", stdin=TOP)
    assert result.stdout_bytes.startswith(b"\x89PNG")
    assert result.stderr.splitlines() == [
        "The curve of all.scores is over the best 2 labels of each point",
        "The curve of - is over the 3 listed labels only, at most 2 of 3 per point; "
        "`xmlgp predict -k all` lists all labels",
    ]


def test_scores_of_all_labels_of_a_model_are_not_asked_for_again(drawn):
    labels = [{"label": name, "probability": 0.5} for name in "ab"]
    Path("p.jsonl").write_text((json.dumps({"labels": labels}) + "\n") * 3)
    # The model does not have c.
    Path("new.csv").write_text("text,labels\nx,a;c\ny,b\nz,\n")
    for options in ([], ["-k", "all"]):
        result = run("plot", "reliability", "p.jsonl", "new.csv", *options)
        assert result.stderr == "The curve of p.jsonl is over the same 2 of 3 labels of each point\n"
    assert run("plot", "reliability", "all.scores", "test.txt", "-k", "0").exit_code == 2


@pytest.mark.parametrize("options", [["--by", "rank"], ["--by", "frequency", "--train", "test.txt"]], ids=" ".join)
def test_reliability_by_rank_and_by_frequency(drawn, options):
    result = run("plot", "reliability", "all.scores", "-", "test.txt", "-o", "-", *options, stdin=TOP)
    assert result.stdout_bytes.startswith(b"\x89PNG")
    words = {"rank": "rank of the label for its point", "frequency": "training points of the label"}
    upper, lower = drawn[0].axes
    assert lower.get_xlabel() == words[options[1]]
    assert names_of(upper)[:2] == ["all.scores", "-"]


def test_the_figure_by_rank_has_the_numbers_of_evaluate(drawn):
    assert run("plot", "reliability", "all.scores", "test.txt", "--by", "rank", "-k", "2").exit_code == 0
    rows = json.loads(run("evaluate", "all.scores", "test.txt", "-k", "2", "--reliability", "--json").stdout)
    shares = drawn[0].axes[0].get_lines()[0].get_ydata().tolist()
    assert shares == [row["true"] for row in rows["reliability"]["rank"]]
    assert len(shares) == 2
