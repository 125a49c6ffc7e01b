"""`xmlgp predict`: scores, kinds of input and output, and errors."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import label_ranking_average_precision_score

from tests.cli.command import SMALL, changed_description, run, said
from tests.problems import paired_dataset
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Dataset, Features, stack
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runtime.progress import silent

pytestmark = pytest.mark.usefixtures("model")


def lines(text):
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("options", "count", "output"),
    [([], 5, "probability"), (["-k", "all"], 7, "probability"), (["-k", "1000", "--output", "utility"], 7, "utility")],
)
def test_scores_equal_those_of_the_library(options, count, output):
    result = run("predict", "model", "data/test.txt", *options, "--with-std", "-o", "scores")
    assert (result.exit_code, result.output) == (0, "")
    scores, rows = read_scores("scores"), np.repeat(np.arange(9), count)
    features = read_dataset("data/test.txt").features
    values, std = open_model(ModelFolder("model")).predictor.score(features, output, with_std=True)
    assert scores.labels.tolist() == np.argsort(-values, axis=1)[:, :count].ravel().tolist()
    # `score` adds up the terms of a row in another order.
    np.testing.assert_allclose(scores.scores, values[rows, scores.labels], rtol=1e-5)
    written = [float(pair.split(":")[2]) for pairs in lines(Path("scores").read_text())[1:] for pair in pairs]
    np.testing.assert_allclose(written, std[rows, scores.labels], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "output", "threshold", "limit"),
    [
        (["--threshold", "0.3", "-k", "1"], "probability", 0.3, 1),
        (["--threshold", "-0.5", "--output", "utility"], "utility", -0.5, 7),
    ],
)
def test_a_threshold_and_a_limit_assign_labels(options, output, threshold, limit):
    result = run("predict", "model", "data", *options, "--with-std", "-o", "labels")
    assert (result.exit_code, result.output) == (0, "")
    ranking = run("predict", "model", "data", "-k", "all", "--output", output, "--with-std").stdout
    first, *points = lines(ranking)
    expected = [[*first, "assigned"]] + [
        [pair for pair in point if float(pair.split(":")[1]) >= threshold][:limit] for point in points
    ]
    assert lines(Path("labels").read_text()) == expected


@pytest.mark.parametrize("options", [["--threshold", "0.3"], ["--threshold", "0.3", "-k", "1"], ["--assign"]])
def test_files_of_assigned_labels_say_so(options):
    assert run("predict", "-q", "model", "data", *options).stdout.startswith("9 7 assigned\n")
    rows = run("predict", "-q", "model", "data", *options, "--format", "jsonl").stdout.splitlines()
    assert {json.loads(row)["assigned"] for row in rows} == {True}
    assert run("predict", "-q", "model", "data", "-k", "2").stdout.startswith("9 7\n")
    assert "assigned" not in run("predict", "-q", "model", "data", "-k", "2", "--format", "jsonl").stdout


def test_default_settings_rank_far_better_than_chance(tmp_path):
    (tmp_path / "catalogue.yaml").write_text("datasets: {}\n")
    # There are enough features for label weights.
    dataset = paired_dataset(N=200, D=1000)
    write_dataset("wide.txt", dataset)
    assert run("train", "wide.txt", "default").exit_code == 0
    folder = ModelFolder("default")
    assert folder.settings == MLGPFSettings(inducing="features", inducing_start="rows", factors=100)
    history, epochs = folder.description["history"], folder.settings.epoch_count(dataset.N)
    # A sweep follows the epochs, and one that adds the held-out points.
    assert [entry.get("sweep") for entry in history] == [None] * epochs + [1, 2]
    names = folder.arrays("parameters.")
    assert {"loadings", "label_weights.mean", "calibration"} <= names.keys()
    assert run("predict", "default", "wide.txt", "--with-std", "-k", "all", "-o", "scores").output == ""
    scores, labels = read_scores("scores"), dataset.labels.toarray()
    deviations = [float(pair.split(":")[2]) for pairs in lines(Path("scores").read_text())[1:] for pair in pairs]
    assert 0 < min(deviations) < max(deviations) < 0.5
    values = np.zeros(labels.shape)
    values[np.repeat(np.arange(200), 7), scores.labels] = scores.scores
    assert ((values > 0) & (values < 1)).all()
    assert label_ranking_average_precision_score(labels[labels.any(axis=1)], values[labels.any(axis=1)]) > 0.9


def test_all_kinds_of_input_and_output_give_the_same_scores(tmp_path):
    text = (tmp_path / "data" / "test.txt").read_bytes()
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(text))
    expected = run("predict", "model", "data/test.txt").stdout
    assert run("predict", "model", "data").stdout == expected
    assert run("predict", "model", "test.txt.gz").stdout == expected
    assert run("predict", "model", "-", stdin=gzip.compress(text)).stdout == expected
    assert run("predict", "model", "data", "-o", "plain.scores").stdout == ""
    assert run("predict", "model", "data", "--out", "packed.scores.gz").stdout == ""
    assert (tmp_path / "plain.scores").read_text() == expected
    assert gzip.decompress((tmp_path / "packed.scores.gz").read_bytes()).decode() == expected


def test_labels_of_the_points_are_ignored(tmp_path):
    expected = run("predict", "model", "data").stdout
    features = read_dataset("data/test.txt").features
    for K in (7, 0, 3):
        write_dataset("new.txt", Dataset(features, sp.csr_array((9, K), dtype=bool)))
        result = run("predict", "model", "new.txt")
        assert result.stdout == expected
        assert result.stderr == ("Note: new.txt has 3 labels, but the model was trained on 7\n" if K == 3 else "")
        assert run("predict", "model", "new.txt", "-q").stderr == ""


def test_the_error_for_an_interrupted_run_refers_to_show(interrupt):
    run("preprocess", "data", "half")
    for folder in ("new", "half", "model"):
        interrupt(2, "data", folder, *SMALL, "--overwrite")
    hint = "the folder has an unfinished run, see `xmlgp show {}`"
    assert said(run("predict", "new", "data")).endswith("(no model.json); " + hint.format("new"))
    assert said(run("predict", "half", "data")).endswith("not trained yet; " + hint.format("half"))
    # The old model is used until the new one is complete.
    assert run("predict", "model", "data").exit_code == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 24 7\n 0:1\n", "new.txt: the points have 24 features, but the model was trained on 25"),
        ("3 25 7\n 0:1\n 0:1\n 0:x\n", "new.txt:4: "),
        ("3 25 7\n 0:1\n", "new.txt:3: the file ends after 1 of 3 points declared in its first line"),
    ],
)
def test_a_failure_leaves_the_output_unchanged(tmp_path, text, reason):
    (tmp_path / "new.txt").write_text(text)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scores").write_text("earlier")
    assert said(run("predict", "model", "new.txt", "-o", "out/scores")).startswith(reason)
    assert {file.name: file.read_text() for file in (tmp_path / "out").iterdir()} == {"scores": "earlier"}


def test_a_full_disk_is_named():
    if os.path.exists("/dev/full"):
        assert said(run("predict", "model", "data", "-o", "/dev/full")).startswith("no space left on the disk")


def test_a_closed_pipe_causes_no_message(tmp_path):
    dataset = read_dataset("data/test.txt")
    write_dataset("long.txt", stack([dataset] * 500))
    command = [sys.executable, "-m", "xmlgp", "predict", "model", "long.txt", "-k", "all"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"4500 7\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + 13


def test_points_in_libsvm_format_have_the_features_of_the_model():
    points = read_dataset("data/test.txt").features.sparse.toarray()
    points[:, 0] = 0  # so that nothing in the file shows that features count from 0
    write_dataset("new.txt", Dataset(Features(sp.csr_array(points)), sp.csr_array((9, 0), dtype=bool)))
    expected = run("predict", "model", "new.txt", "-k", "all").stdout
    dump_svmlight_file(points, np.arange(9) % 2, "new.svm", comment="test points")
    result = run("predict", "model", "new.svm", "-k", "all")
    assert result.stdout == expected
    about = "new.svm: labels are the numbers as they are; features count from 0, as the training data do"
    assert result.stderr == f"Note: {about}\n"


def test_the_default_output_is_what_the_model_ranks_by():
    outputs = {output: run("predict", "model", "data", "--output", output).stdout for output in OUTPUTS}
    assert run("predict", "model", "data").stdout == outputs["probability"] != outputs["utility"]
    # A model that was trained before there was this setting.
    changed_description("model", lambda description: description["settings"].pop("ranking"))
    assert run("predict", "model", "data").stdout == outputs["probability"]
    changed_description("model", lambda description: description["settings"].update(ranking="utility"))
    assert run("predict", "model", "data").stdout == outputs["utility"]


@pytest.mark.parametrize(
    ("options", "is_file", "is_shown"), [([], False, False), ([], True, True), (["-o", "scores"], False, True)]
)
def test_a_bar_is_shown_unless_answers_may_come_to_its_terminal(monkeypatch, options, is_file, is_shown):
    shown = []
    monkeypatch.setattr("xmlgp.cli.predict.api.write", lambda predictions, *_: shown.append(predictions.reporter))
    isfile = os.path.isfile
    monkeypatch.setattr(os.path, "isfile", lambda path: is_file if path == 1 else isfile(path))
    assert run("predict", "model", "data/test.txt", *options).exit_code == 0
    assert [reporter.progress is not silent for reporter in shown] == [is_shown]
