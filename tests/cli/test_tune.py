"""`xmlgp tune`: the chosen rule, what `predict` and `show` make of it, and errors that leave the folder unchanged."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import f1_score

from tests.cli.command import SMALL, run, said
from tests.held_out import calibrated
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runs.trained_model import open_predictor


@pytest.fixture(autouse=True)
def _held_out(model):
    write_dataset("held.txt", small_dataset(60, seed=5))


def assigned(file):
    """Return which labels a scores file lists, N×K."""
    scores = read_scores(file)
    found = np.zeros((scores.N, scores.K), bool)
    found[np.repeat(np.arange(scores.N), np.diff(scores.indptr)), scores.labels] = True
    return found


def described():
    return json.loads(Path("model/model.json").read_text())


def test_the_best_rule_is_printed_stored_shown_and_used():
    metric = "f1-macro"
    before = described()
    result = run("tune", "model", "held.txt", "--metric", metric)
    assert (result.exit_code, result.stderr) == (0, "")
    tuned = described()["tuned"]
    assert {name: value for name, value in described().items() if name != "tuned"} == before
    assert (tuned["metric"], tuned["output"], tuned["points"]) == (metric, "probability", 60)
    threshold, limit, value = tuned["threshold"], tuned["limit"], tuned["value"]
    assert result.stdout == f"threshold  {threshold:.6g}\nlimit      {limit}\n{metric:9}  {value:.5f}\n"
    assert json.loads(run("tune", "model", "held.txt", "--metric", metric, "--json").stdout) == tuned

    # Every threshold with every limit, by scikit-learn.
    held = read_dataset("held.txt")
    truth = held.labels.toarray()
    scores = open_predictor(ModelFolder("model")).score(held.features)[0]
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)

    def measure(threshold, limit):
        found = (scores >= np.float64(threshold)) & (ranks < limit)
        return f1_score(truth, found, average="macro", zero_division=np.nan)

    best = max(measure(threshold, limit) for threshold in np.unique(scores)[::21] for limit in range(1, 8))
    assert best <= value + 1e-12
    # `score` adds up in another order.
    assert value == pytest.approx(measure(threshold * (1 - 1e-5), limit))

    most = "1 label" if limit == 1 else f"{limit} labels"
    rule = f"probability at least {threshold:.6g}, at most {most}"
    assert f"\ntuned     {rule}: {metric} {value:.5f} on 60 points\n" in run("show", "model").stdout
    assert json.loads(run("show", "model", "--json").stdout)["tuned"] == tuned
    result = run("predict", "model", "held.txt", "-o", "held.labels")
    note = f"model is tuned for {metric}: assigning labels of {rule}; k ranks labels instead\n"
    assert (result.exit_code, result.output) == (0, note)
    options = ["--threshold", repr(threshold), "--limit", limit, "-o", "same.labels"]
    assert run("predict", "model", "held.txt", *options).output == ""
    assert Path("held.labels").read_bytes() == Path("same.labels").read_bytes()
    printed = json.loads(run("evaluate", "held.labels", "held.txt", "--assigned", "--json").stdout)
    assert printed[f"F1_{metric[3:]}"] == pytest.approx(value)


def test_options_of_predict_take_precedence_over_the_tuned_rule():
    cases = [["-k", "3"], ["-k", "all"], ["--threshold", "0.1"], ["--limit", "2"], ["--assign"]]
    before = [run("predict", "model", "data", *options).stdout for options in cases]
    ranking = run("predict", "model", "data", "--output", "utility").stdout
    run("tune", "model", "held.txt")
    for options, expected in zip(cases, before, strict=True):
        result = run("predict", "model", "data", *options)
        assert (result.stdout, result.stderr) == (expected, "")
    assert run("predict", "-q", "model", "data").stderr == ""
    # The threshold is one of probabilities.
    result = run("predict", "model", "data", "--output", "utility")
    assert result.stdout == ranking
    assert result.stderr == "model is tuned for the output probability; listing the 5 best labels\n"
    assert run("predict", "model", "data", "--output", "probability").stdout != ranking


def test_a_threshold_of_calibrated_probabilities_is_not_one_of_others():
    with calibrated():
        run("train", "-q", "data", "calibrated", "-P", "3", "--epochs", "4")
    expected = run("predict", "calibrated", "data", "--no-calibration").stdout
    run("tune", "calibrated", "held.txt")
    result = run("predict", "calibrated", "data", "--no-calibration")
    assert result.stdout == expected
    assert result.stderr == "calibrated is tuned for calibrated probabilities; listing the 5 best labels\n"
    # This model has no calibration.
    run("tune", "model", "held.txt")
    assert run("predict", "model", "data", "--no-calibration").stdout == run("predict", "model", "data").stdout


def test_training_again_drops_the_rule():
    run("tune", "model", "held.txt")
    # Nothing to train keeps it.
    assert "already trained" in run("train", "data", "model", *SMALL, "--resume").stderr
    assert ModelFolder("model").tuned
    run("train", "-q", "data", "model", *SMALL)
    assert ModelFolder("model").tuned is None
    assert "tuned" not in run("show", "model").stdout
    assert run("predict", "model", "data").stderr == ""


def test_points_are_held_out_or_in_a_folder_for_validation():
    note = "data/train.txt has the points that model was trained on; held-out points give a better threshold\n"
    assert run("tune", "model", "data/train.txt").stderr == note
    assert run("tune", "model", "data/train.txt", "-q").stderr == ""
    assert said(run("tune", "model", "data")) == (
        "data: this folder contains no validation.txt, validation.svm or *.validation.svm, with or without .gz"
    )
    shutil.copy("held.txt", "data/validation.txt")
    expected = run("tune", "model", "held.txt").stdout
    assert run("tune", "model", "data").stdout == run("tune", "model", "-", stdin=Path("held.txt").read_bytes()).stdout
    assert run("tune", "model", "data").stdout == expected


def test_what_cannot_be_tuned_is_refused_and_the_folder_unchanged():
    before = {file: file.read_bytes() for file in Path("model").rglob("*") if file.is_file()}
    held = read_dataset("held.txt")
    write_dataset("narrow.txt", Dataset(held.features[:, :24], held.labels))
    write_dataset("fewer.txt", Dataset(held.features, held.labels[:, :6]))
    Path("bare.txt").write_text("2 25 7\n 0:1\n 1:1\n")
    Path("none.txt").write_text("0 25 7\n")
    Path("bad.txt").write_text("2 25 7\n 0:1\n 1:x\n")
    features = "the points have 24 features, but the model was trained on 25"
    for data, reason in {
        "narrow.txt": f"narrow.txt: {features}",
        "fewer.txt": "fewer.txt: the points have 6 labels, but the model was trained on 7",
        "bare.txt": "bare.txt: no point has a true label, so there is nothing to tune for",
        "none.txt": "none.txt: no point has a true label, so there is nothing to tune for",
    }.items():
        assert said(run("tune", "model", data)) == reason
    assert said(run("tune", "model", "bad.txt")).startswith("bad.txt:3: ")
    assert said(run("tune", "model", "nowhere.txt")) == "nowhere.txt: No such file or directory"
    assert said(run("tune", "model", "held.txt", "--metric", "f1"), status=2).startswith("Invalid value for '--metric'")
    with lock_model_folder("model"):
        assert said(run("tune", "model", "held.txt")).startswith("model: process ")
    assert {file: file.read_bytes() for file in Path("model").rglob("*") if file.is_file()} == before


def test_folders_without_a_trained_model_of_several_labels_are_refused():
    for path in ("data", "nowhere"):
        assert said(run("tune", path, "held.txt")) == f"{path}: there is no model here (no model.json)"
    assert not Path("nowhere").exists()
    run("preprocess", "-q", "data", "half", "--recipe", "s-SMALL")
    assert said(run("tune", "half", "held.txt")) == "half: the model is preprocessed, but not trained yet"
    points = np.random.default_rng(0).normal(size=(40, 2))
    dump_svmlight_file(points, np.where(points[:, 0] > 0, 1, -1), "two.svm", zero_based=False)
    run("train", "-q", "two.svm", "classes", "--inducing-count", "5", "--iterations", "3")
    reason = "classes: the model has one label, so there is no number of labels to tune"
    assert said(run("tune", "-q", "classes", "two.svm")) == reason
