"""`xmlgp tune`: the chosen rule, what `predict` and `show` make of it, and errors that leave the folder unchanged."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.held_out import calibrated
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder


@pytest.fixture(autouse=True)
def _held_out(model):
    write_dataset("held.txt", small_dataset(60, seed=5))


def test_the_best_rule_is_printed_stored_shown_and_used():
    """The rule itself is compared with scikit-learn in tests/prediction/test_tuning.py."""
    before = dict(ModelFolder("model").description)
    result = run("tune", "model", "held.txt", "--metric", "f1-macro")
    assert (result.exit_code, result.stderr) == (0, "")
    description = dict(ModelFolder("model").description)
    tuned = description.pop("tuned")
    assert description == before
    assert (tuned["metric"], tuned["output"], tuned["points"]) == ("f1-macro", "probability", 60)
    threshold, limit, value = tuned["threshold"], tuned["limit"], tuned["value"]
    assert result.stdout == f"threshold  {threshold:.6g}\nlimit      {limit}\nf1-macro   {value:.5f}\n"
    assert json.loads(run("tune", "model", "held.txt", "--metric", "f1-macro", "--json").stdout) == tuned
    most = "1 label" if limit == 1 else f"{limit} labels"
    rule = f"probability at least {threshold:.6g}, at most {most}"
    assert f"\ntuned     {rule}: f1-macro {value:.5f} on 60 points\n" in run("show", "model").stdout
    result = run("predict", "model", "held.txt", "-o", "held.labels")
    note = f"model is tuned for f1-macro: assigning labels of {rule}; use -k N to rank labels instead\n"
    assert (result.exit_code, result.output) == (0, note)
    options = ["--threshold", repr(threshold), "--limit", limit, "-o", "same.labels"]
    assert run("predict", "model", "held.txt", *options).output == ""
    assert Path("held.labels").read_bytes() == Path("same.labels").read_bytes()
    printed = json.loads(run("evaluate", "held.labels", "held.txt", "--assigned", "--json").stdout)
    assert printed["F1_macro"] == pytest.approx(value)


def test_options_of_predict_take_precedence_over_the_tuned_rule():
    cases = [["-k", "3"], ["--threshold", "0.1"], ["--limit", "2"], ["--assign"]]
    before = [run("predict", "model", "data", *options).stdout for options in cases]
    ranking = run("predict", "model", "data", "--output", "utility").stdout
    run("tune", "model", "held.txt")
    for options, expected in zip(cases, before, strict=True):
        result = run("predict", "model", "data", *options)
        assert (result.stdout, result.stderr) == (expected, "")
    # The threshold is one of probabilities.
    result = run("predict", "model", "data", "--output", "utility")
    assert result.stdout == ranking
    assert result.stderr == "model is tuned for the output probability; listing the 5 best labels\n"


def test_a_threshold_of_calibrated_probabilities_is_not_one_of_others():
    with calibrated():
        run("train", "-q", "data", "calibrated", "-P", "3", "--epochs", "4")
    expected = run("predict", "calibrated", "data", "--no-calibration").stdout
    run("tune", "calibrated", "held.txt")
    result = run("predict", "calibrated", "data", "--no-calibration")
    assert result.stdout == expected
    assert result.stderr == "calibrated is tuned for calibrated probabilities; listing the 5 best labels\n"


def test_training_again_drops_the_rule():
    run("tune", "model", "held.txt")
    # Nothing to train keeps it.
    assert "already trained" in run("train", "data", "model", *SMALL, "--resume").stderr
    assert ModelFolder("model").tuned
    run("train", "-q", "data", "model", *SMALL)
    assert ModelFolder("model").tuned is None


def test_points_that_the_model_knows_are_refused_unless_forced():
    write_dataset("more.txt", small_dataset(30, D=26, K=8, seed=6))
    run("learn", "-q", "model", "more.txt")
    before = everything(Path("model"))
    for data in "data/train.txt", "more.txt":
        if data == "data/train.txt":
            # The same points, with the features and labels that the model has by now.
            Path("again.txt").write_text("40 26 8\n" + Path(data).read_text().split("\n", 1)[1])
            data = "again.txt"
        reason = "so F1 on them is too high; give held-out points, or use --force"
        assert said(run("tune", "model", data)) == f"model was trained on the points of {data}, {reason}"
    assert everything(Path("model")) == before
    assert run("tune", "model", "more.txt", "--force").stdout.startswith("threshold ")


def test_the_earlier_rule_is_compared():
    run("tune", "model", "held.txt")
    rule = ModelFolder("model").tuned
    write_dataset("other.txt", small_dataset(60, seed=8))
    run("predict", "-q", "model", "other.txt", "-o", "other.labels")
    value = json.loads(run("evaluate", "other.labels", "other.txt", "--assigned", "--json").stdout)["F1_macro"]
    result = run("tune", "model", "other.txt", "--metric", "f1-macro")
    assert result.stderr == f"model: the earlier rule, {rule}, has f1-macro {value:.5f} on these points\n"


def test_points_are_held_out_or_in_a_folder_for_validation():
    message = said(run("tune", "model", "data"))
    assert message.startswith("data: this folder contains no validation.txt, ")
    # What the message says to do works.
    divide = message.rpartition("`xmlgp ")[2].removesuffix("`")
    assert run(*divide.split(), "--test", "0.5").exit_code == 0
    assert run("train", "OUT", "part", *SMALL, "-q").exit_code == 0
    assert run("tune", "part", "OUT/test.txt").stdout.startswith("threshold ")
    shutil.copy("held.txt", "data/validation.txt")
    printed = run("tune", "model", "data").stdout
    assert printed.startswith("threshold ")
    assert run("tune", "model", "-", stdin=Path("held.txt").read_bytes()).stdout == printed


def test_a_model_that_is_being_written_is_not_tuned(model):
    before = everything(model)
    with lock_model_folder("model"):
        assert said(run("tune", "model", "held.txt")).startswith("model: process ")
    assert everything(model) == before
