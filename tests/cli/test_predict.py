"""`xmlgp predict`: scores, kinds of input and output, and errors."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import label_ranking_average_precision_score

from tests.cli.command import SMALL, run, said
from tests.held_out import calibrated
from tests.problems import paired_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.gp.exact_gp import LENGTHSCALE, PROBABILITY_MARGIN
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.expected_f1 import highest_expected_f1
from xmlgp.prediction.predictor import OUTPUTS, Predictor
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runs.train import train_model
from xmlgp.runs.trained_model import open_predictor
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training.checkpoints import CheckpointWriter


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    # Without held-out points, regression joins.
    chosen = {"factors": 3, "label_weights": True, "epochs": 2, "batch_size": 16, "calibration": False}
    settings = MLGPFSettings(inducing="features", **chosen)
    return train_model(paired_dataset(), tmp_path_factory.mktemp("trained"), settings).path


@pytest.fixture(autouse=True)
def _model(workdir, trained):
    shutil.copytree(trained, "model")


def lines(text):
    return [line.split() for line in text.splitlines()]


def test_scores_equal_those_of_the_library():
    result = run("predict", "model", "data/test.txt")
    assert (result.exit_code, result.stderr) == (0, "")
    header, *points = lines(result.stdout)
    assert header == ["9", "7"]
    values, _ = open_predictor(ModelFolder("model")).score(read_dataset("data/test.txt").features)
    assert [len(point) for point in points] == [5] * 9
    for point, expected in zip(points, values, strict=True):
        order = np.argsort(-expected)[:5]
        labels, scores = zip(*(pair.split(":") for pair in point), strict=True)
        assert list(map(int, labels)) == order.tolist()
        # `score` adds up the terms of a row in another order.
        np.testing.assert_allclose(list(map(float, scores)), expected[order], rtol=1e-5)


@pytest.mark.parametrize(
    ("k", "count", "output"), [("1", 1, "utility"), ("ALL", 7, "probability"), ("1000", 7, "utility")]
)
def test_options_select_labels_and_outputs(k, count, output):
    result = run("predict", "model", "data", "-k", k, "--output", output, "--with-std", "-o", "scores")
    assert (result.exit_code, result.output) == (0, "")
    scores = read_scores("scores")
    predictor = open_predictor(ModelFolder("model"))
    values, std = predictor.score(read_dataset("data/test.txt").features, output, with_std=True)
    assert (np.diff(scores.indptr) == count).all()
    rows = np.repeat(np.arange(9), count)
    np.testing.assert_allclose(scores.scores, values[rows, scores.labels], rtol=1e-6)
    np.testing.assert_allclose(scores.std, std[rows, scores.labels], rtol=1e-6)
    if output == "probability":
        assert (scores.scores > 0).all()
        assert (scores.scores < 1).all()


@pytest.mark.parametrize(
    ("options", "output", "threshold", "limit"),
    [
        (["--threshold", "0.3"], "probability", 0.3, 7),
        (["--threshold", "0.3", "--limit", "1"], "probability", 0.3, 1),
        (["--threshold", "-0.5", "--output", "utility"], "utility", -0.5, 7),
        (["--limit", "3"], "probability", 0, 3),
    ],
)
def test_a_threshold_and_a_limit_assign_labels(options, output, threshold, limit):
    result = run("predict", "model", "data", *options, "--with-std", "-o", "labels")
    assert (result.exit_code, result.output) == (0, "")
    ranking = run("predict", "model", "data", "-k", "all", "--output", output, "--with-std").stdout
    first, *points = lines(ranking)
    expected = [first] + [
        [pair for pair in point if float(pair.split(":")[1]) >= threshold][:limit] for point in points
    ]
    assert lines(Path("labels").read_text()) == expected


def test_assign_writes_the_labels_of_highest_expected_f1():
    values = open_predictor(ModelFolder("model")).score(read_dataset("data/test.txt").features, "probability")[0]
    order = np.argsort(-values, axis=1, kind="stable")
    for options, limit in (["--limit", "2"], 2), ([], None):
        sizes, _ = highest_expected_f1(np.take_along_axis(values, order, axis=1), limit)
        result = run("predict", "model", "data", "--assign", *options, "-o", "labels")
        assert (result.exit_code, result.output) == (0, "")
        scores = read_scores("labels")
        assert np.diff(scores.indptr).tolist() == sizes.tolist()
        np.testing.assert_array_equal(scores.labels, order[np.arange(7) < sizes[:, None]])
    assert len(set(sizes)) > 1


def test_train_show_predict_with_default_settings(tmp_path):
    (tmp_path / "catalogue.yaml").write_text("datasets: {}\n")
    # There are enough features for label weights.
    dataset = paired_dataset(N=200, D=1000)
    write_dataset("wide.txt", dataset)
    result = run("train", "wide.txt", "default")
    assert (result.exit_code, result.stdout) == (0, "")
    folder = ModelFolder("default")
    assert folder.settings == MLGPFSettings(inducing="features", factors=100)
    history, epochs = folder.description["history"], folder.settings.epoch_count(dataset.N)
    # Two sweeps follow the epochs, and one that adds the held-out points.
    assert [entry["epoch"] for entry in history] == list(range(1, epochs + 4))
    assert [entry.get("sweep") for entry in history] == [None] * epochs + [1, 2, 3]
    names = folder.arrays("parameters.")
    assert {"loadings", "label_weights.mean", "regression.weights", "calibration"} <= names.keys()
    assert run("show", "default").exit_code == 0

    labels = dataset.labels.toarray()
    for output in ("utility", "probability"):
        options = ["--output", output, "--with-std", "-k", "all", "-o", "scores"]
        assert run("predict", "default", "wide.txt", *options).output == ""
        scores = read_scores("scores")
        assert labels.shape == (scores.N, scores.K)
        assert (scores.std > 0).all()
        values = np.zeros(labels.shape)
        values[np.repeat(np.arange(200), 7), scores.labels] = scores.scores
        if output == "probability":
            assert ((values > 0) & (values < 1)).all()
            assert (scores.std < 0.5).all()
        # The training points are ranked far better than by chance.
        assert label_ranking_average_precision_score(labels[labels.any(axis=1)], values[labels.any(axis=1)]) > 0.9


def test_all_kinds_of_input_and_output_give_the_same_scores(tmp_path):
    text = (tmp_path / "data" / "test.txt").read_bytes()
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(text))
    expected = run("predict", "model", "data/test.txt").stdout
    assert run("predict", "model", "data").stdout == expected
    assert run("predict", "model", "test.txt.gz").stdout == expected
    assert run("predict", "model", "-", stdin=text).stdout == expected
    assert run("predict", "model", "-", stdin=gzip.compress(text)).stdout == expected
    assert run("predict", "model", "data", "-o", "plain.scores").stdout == ""
    assert run("predict", "model", "data", "--out", "packed.scores.gz").stdout == ""
    assert run("predict", "model", "data", "-o", "-").stdout == expected
    assert (tmp_path / "plain.scores").read_text() == expected
    assert gzip.decompress((tmp_path / "packed.scores.gz").read_bytes()).decode() == expected


@pytest.fixture
def topics(workdir):
    """Train a BMLPL model in the folder `topics`; return its predictor."""
    options = ["--model", "bmlpl", "--iterations", "5", "-q"]
    assert run("train", "data", "topics", *options).output == ""
    return open_predictor(ModelFolder("topics"))


@pytest.mark.parametrize("output", ["utility", "probability"])
def test_scores_of_bmlpl_equal_those_of_the_library(topics, tmp_path, output):
    k, count = "2", 2
    options = ["-k", k, "--output", output, "--with-std"]
    result = run("predict", "topics", "data", *options, "-o", "scores")
    assert (result.exit_code, result.output) == (0, "")
    scores = read_scores("scores")
    values, std = topics.score(read_dataset("data/test.txt").features, output, with_std=True)
    assert (np.diff(scores.indptr) == count).all()
    rows = np.repeat(np.arange(9), count)
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(scores.labels, order.ravel())
    np.testing.assert_allclose(scores.scores, values[rows, scores.labels], rtol=1e-6)
    np.testing.assert_allclose(scores.std, std[rows, scores.labels], rtol=1e-6)
    assert (scores.scores >= 0).all()
    expected = (tmp_path / "scores").read_text()
    text = (tmp_path / "data" / "test.txt").read_bytes()
    assert run("predict", "topics", "data", *options, "--memory", "1").stdout == expected
    assert run("predict", "topics", "-", *options, stdin=gzip.compress(text)).stdout == expected
    assert run("predict", "topics", "data", *options, "-o", "scores.gz").stdout == ""
    assert gzip.decompress((tmp_path / "scores.gz").read_bytes()).decode() == expected


def test_bmlpl_refuses_other_features_and_damaged_arrays(topics, tmp_path):
    (tmp_path / "new.txt").write_text("1 24 7\n 0:1\n")
    message = said(run("predict", "topics", "new.txt"))
    assert message == "new.txt: the points have 24 features, but the model was trained on 25"
    file = next((tmp_path / "topics" / "arrays").glob("parameters.topics.*"))
    file.write_bytes(file.read_bytes()[:-1])
    assert (
        said(run("predict", "topics", "data")) == f"topics/arrays/{file.name}: the array parameters.topics is damaged"
    )


def test_labels_of_the_points_are_ignored(tmp_path):
    expected = run("predict", "model", "data").stdout
    features = read_dataset("data/test.txt").features
    for K in (7, 0, 3):
        write_dataset("new.txt", Dataset(features, sp.csr_array((9, K), dtype=bool)))
        result = run("predict", "model", "new.txt")
        assert result.stdout == expected
        assert result.stderr == ("new.txt has 3 labels, but the model was trained on 7\n" if K == 3 else "")
        assert run("predict", "model", "new.txt", "-q").stderr == ""


def test_points_without_features_and_files_without_points(tmp_path):
    (tmp_path / "new.txt").write_text("2 25 7\n\n0:1\n".replace("0:1", " 0:1"))
    header, bare, _ = lines(run("predict", "model", "new.txt", "-k", "all", "--output", "utility").stdout)
    # Only the bias and the regression contribute. The regression depends on the lengths of the training points.
    parameters = ModelFolder("model").arrays("parameters.")
    rows = np.repeat(np.arange(100), np.diff(parameters["regression.indptr"]))
    lengths = np.bincount(rows, parameters["regression.values"] ** 2, 100)
    covariances = np.exp(-lengths / (2 * LENGTHSCALE**2))
    regressed = covariances @ parameters["regression.weights"] @ parameters["regression.loadings"].T
    regressed = np.clip(parameters["regression.mean"] + regressed, 0, 1)
    expected = (parameters["bias"] + logit((regressed + PROBABILITY_MARGIN) / (1 + 2 * PROBABILITY_MARGIN))) / 2
    labels, scores = zip(*(pair.split(":") for pair in bare), strict=True)
    assert list(map(int, labels)) == np.argsort(-expected).tolist()
    np.testing.assert_allclose(list(map(float, scores)), np.sort(expected)[::-1], rtol=1e-4)
    (tmp_path / "none.txt").write_text("0 25 7\n")
    assert run("predict", "model", "none.txt").stdout == "0 7\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["model"], "Missing argument 'DATA'."),
        (["model", "data", "-k", "0"], "Invalid value for '-k': '0' is neither a positive integer nor all."),
        (["model", "data", "-k", "-1"], "Invalid value for '-k'"),
        (["model", "data", "-k", "1.5"], "Invalid value for '-k'"),
        (["model", "data", "-k", "every"], "Invalid value for '-k'"),
        *[
            (["model", "data", "-k", "5", *options], "k is for rankings; with a threshold or assign, the limit gives")
            for options in (["--threshold", "0"], ["--limit", "5"], ["--assign"])
        ],
        (["model", "data", "--assign", "--threshold", "0.5"], "assign and threshold exclude each other."),
        (["model", "data", "--assign", "--output", "utility"], "assign needs probabilities, not utilities."),
        (["model", "data", "--threshold", "1.5"], "the threshold 1.5 is not a probability from 0 to 1."),
        (["model", "data", "--threshold", "-0.1"], "the threshold -0.1 is not a probability from 0 to 1."),
        (["model", "data", "--threshold", "nan"], "Invalid value for '--threshold': nan is not a finite number."),
        (["model", "data", "--limit", "0"], "Invalid value for '--limit'"),
        (["model", "data", "--output", "odds"], "Invalid value for '--output': 'odds' is not one of"),
        (["model", "data", "--recipe", "x"], "No such option"),
    ],
)
def test_invalid_arguments_are_refused(arguments, reason):
    assert said(run("predict", *arguments), status=2).startswith(reason)


def test_folders_without_a_trained_model_are_refused(tmp_path):
    run("preprocess", "data", "half", "--recipe", "s-SMALL")
    for path in ("data", "nowhere", "data/train.txt", ""):
        assert said(run("predict", path, "data")) == f"{path or '.'}: there is no model here (no model.json)"
    assert said(run("predict", "half", "data")) == "half: the model is preprocessed, but not trained yet"
    # The arguments in the wrong order.
    assert said(run("predict", "data", "model")).startswith("data: there is no model here")
    (tmp_path / "model" / "model.json").write_text("{")
    assert said(run("predict", "model", "data")) == "model/model.json: this is not the description of an xmlgp model"


def test_the_error_for_an_interrupted_run_refers_to_show(monkeypatch):
    def interrupted(self, state, epoch_ended=False):
        self.save(state())
        raise Interrupted(15)

    run("preprocess", "data", "half")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointWriter, "maybe_save", interrupted)
        for folder in ("new", "half", "model"):
            assert run("train", "data", folder, *SMALL).exit_code == 128 + 15
    hint = "the folder has an unfinished run, see `xmlgp show {}`"
    assert said(run("predict", "new", "data")).endswith("(no model.json); " + hint.format("new"))
    assert said(run("predict", "half", "data")).endswith("not trained yet; " + hint.format("half"))
    # The old model is used until the new one is complete.
    assert run("predict", "model", "data").exit_code == 0


def test_a_damaged_array_is_refused(tmp_path):
    file = next((tmp_path / "model" / "arrays").glob("parameters.bias.*"))
    file.write_bytes(file.read_bytes()[:-1])
    reason = said(run("predict", "model", "data"))
    assert reason == f"model/arrays/{file.name}: the array parameters.bias is damaged"


FAILURES = {
    "other features": ("1 24 7\n 0:1\n", "new.txt: the points have 24 features, but the model was trained on 25"),
    "a bad line": ("3 25 7\n 0:1\n 0:1\n 0:x\n", "new.txt:4: "),
    "too few points": ("3 25 7\n 0:1\n", "new.txt:3: the file ends after 1 of 3 points declared in its first line"),
    "too many points": (
        "1 25 7\n 0:1\n 0:1\n",
        "new.txt:3: the file has more points than the 1 that its first line declares",
    ),
    "features too large": ("1 25 7\n 0:1 1:3e39\n", "new.txt:2: "),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_leaves_the_output_unchanged(tmp_path, name):
    text, reason = FAILURES[name]
    (tmp_path / "new.txt").write_text(text)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scores").write_text("earlier")
    assert said(run("predict", "model", "new.txt", "-o", "out/scores")).startswith(reason)
    assert {file.name: file.read_text() for file in (tmp_path / "out").iterdir()} == {"scores": "earlier"}


def test_a_failure_while_scoring_leaves_no_output(tmp_path, monkeypatch):
    def half(self, features, *arguments):
        yield from original(self, features[:4], *arguments)
        raise MemoryError

    original = Predictor.top
    monkeypatch.setattr(Predictor, "top", half)
    assert said(run("predict", "model", "data", "-o", "scores.gz")) == "there is not enough memory"
    assert [file.name for file in tmp_path.iterdir() if "scores" in file.name or file.name.startswith(".")] == []


def test_errors_of_the_output_name_its_file():
    assert said(run("predict", "model", "data", "-o", "no/such/scores")) == "no/such/scores: No such file or directory"
    assert said(run("predict", "model", "data", "-o", "data")) == "data: Is a directory"
    if os.path.exists("/dev/full"):
        assert said(run("predict", "model", "data", "-o", "/dev/full")).startswith("no space left on the disk")


def test_a_closed_pipe_causes_no_message(tmp_path):
    dataset = read_dataset("data/test.txt")
    write_dataset("long.txt", Dataset(*(sp.csr_array(sp.vstack([part] * 500)) for part in vars(dataset).values())))
    process = subprocess.Popen(
        [sys.executable, "-m", "xmlgp", "predict", "model", "long.txt", "-k", "all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"4500 7\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + 13


@pytest.fixture
def in_libsvm(workdir):
    """Return a function that writes the test points in libsvm format with D features."""
    features = read_dataset("data/test.txt").features.toarray()

    def write(D, name="new.svm"):
        changed = np.ones((9, D), np.float32)
        changed[:, : min(D, 25)] = features[:, :D]
        dump_svmlight_file(changed, np.arange(9) % 2, name, zero_based=False, comment="test points")
        return changed

    return write


def test_points_in_libsvm_format_get_the_same_scores(workdir, in_libsvm):
    predictor = open_predictor(ModelFolder("model"))
    in_libsvm(25)
    result = run("predict", "model", "new.svm", "-k", "all")
    assert result.exit_code == 0
    assert result.stderr == "new.svm has 1 label, but the model was trained on 7\n"
    assert result.stdout == run("predict", "model", "data/test.txt", "-k", "all").stdout
    stdin = (workdir / "new.svm").read_text()
    assert run("predict", "-q", "model", "-", "-k", "all", stdin=stdin).stdout == result.stdout
    (workdir / "folder").mkdir()
    (workdir / "folder/test.svm.gz").write_bytes(gzip.compress(stdin.encode()))
    assert run("predict", "-q", "model", "folder", "-k", "all").stdout == result.stdout

    changed = in_libsvm(9)
    result = run("predict", "-q", "model", "new.svm", "-k", "all", "-o", "few.scores")
    assert (result.exit_code, result.output) == (0, "")
    padded = sp.csr_array(np.pad(changed, ((0, 0), (0, 16))))
    scores = read_scores("few.scores")
    rows = np.repeat(np.arange(9), 7)
    np.testing.assert_allclose(scores.scores, predictor.score(padded)[0][rows, scores.labels], rtol=1e-5)


def test_unknown_features_in_libsvm_format_are_ignored(in_libsvm):
    in_libsvm(31)
    result = run("predict", "model", "new.svm")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "new.svm has features up to 31; those above 25 are ignored because no training point had them"
    )
    assert result.stdout == run("predict", "model", "data/test.txt").stdout
    assert run("predict", "-q", "model", "new.svm").stderr == ""


def test_the_default_output_is_what_the_model_ranks_by():
    outputs = {output: run("predict", "model", "data", "--output", output).stdout for output in OUTPUTS}
    assert run("predict", "model", "data").stdout == outputs["probability"] != outputs["utility"]
    description = json.loads(Path("model/model.json").read_text())
    # A model that was trained before there was this setting.
    del description["settings"]["ranking"]
    Path("model/model.json").write_text(json.dumps(description))
    assert run("predict", "model", "data").stdout == outputs["probability"]
    description["settings"]["ranking"] = "utility"
    Path("model/model.json").write_text(json.dumps(description))
    assert run("predict", "model", "data").stdout == outputs["utility"]
    assert run("predict", "model", "data", "--output", "probability").stdout == outputs["probability"]


def test_probabilities_are_written_without_calibration_if_so_wanted():
    settings = ["-P", "3", "--epochs", "4"]
    with calibrated():
        trained = run("train", "data/train.txt", "calibrated", *settings)
        assert (trained.exit_code, trained.stderr.count("probabilities are calibrated")) == (0, 1)
        trained = run("train", "data/train.txt", "other", *settings, "--set", "calibration=false")
        assert (trained.exit_code, trained.stderr.count("calibrated")) == (0, 0)
    for options in ([], ["--output", "utility"]):
        found, plain = (
            run("predict", "-q", "calibrated", "data/test.txt", "-k", "all", *options, *more).stdout
            for more in ([], ["--no-calibration"])
        )
        assert (found == plain) == bool(options)
        labels = [[re.sub(":.*", "", pair) for pair in line.split()] for line in found.splitlines()]
        assert labels == [[re.sub(":.*", "", pair) for pair in line.split()] for line in plain.splitlines()]
    plain = run("predict", "-q", "calibrated", "data/test.txt", "-k", "all", "--no-calibration").stdout
    # The same model without the map.
    shutil.copytree("calibrated", "without")
    description = json.loads(Path("without/model.json").read_text())
    del description["arrays"]["parameters.calibration"]
    Path("without/model.json").write_text(json.dumps(description))
    assert run("predict", "-q", "without", "data/test.txt", "-k", "all").stdout == plain
    for model, output, message in [
        ("calibrated", "probability", ""),
        ("calibrated", "utility", "utilities are not calibrated anyway\n"),
        ("other", "probability", "other has no calibration to leave out\n"),
        ("other", "utility", "other has no calibration to leave out\n"),
    ]:
        result = run("predict", model, "data/test.txt", "--output", output, "--no-calibration")
        assert (result.exit_code, result.stderr) == (0, message)
