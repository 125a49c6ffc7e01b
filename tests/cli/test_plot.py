"""`xmlgp plot`: the models and files it accepts, its notes and its errors."""

import gzip

import matplotlib.axes
import pytest
import sklearn.metrics

from tests.cli.command import run, said
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
    "classes": ["--model", "gpc", "-M", "3", "--iterations", "2"],
}

TRUTH = [1, 0, 1, 1, 0, 0, 0, 0, 0]
PROBABILITIES = [0.9, 0.8, 0.7, 0.5, 0.4, 0.1, 0.6, 0.3, 0.2]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    for name, content in {"test.txt": DATA, "all.scores": ALL, "top.scores": TOP}.items():
        (tmp_path / name).write_text(content)


@pytest.fixture
def labels(monkeypatch):
    """The labels of the lines drawn."""
    found, plot = [], matplotlib.axes.Axes.plot

    def record(axis, *arguments, **options):
        found.append(options.get("label"))
        return plot(axis, *arguments, **options)

    monkeypatch.setattr(matplotlib.axes.Axes, "plot", record)
    return found


@pytest.fixture
def axes(monkeypatch):
    """The labels of the vertical axes drawn."""
    found, name = [], matplotlib.axes.Axes.set_ylabel

    def record(axis, label, **options):
        found.append(label)
        return name(axis, label, **options)

    monkeypatch.setattr(matplotlib.axes.Axes, "set_ylabel", record)
    return found


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (["topics", "gp", "samples"], ["log posterior", "lower bound"]),
        (["classes"], ["lower bound"]),
    ],
)
def test_bounds_and_log_posteriors(tmp_path, labels, axes, models, expected):
    write_dataset(tmp_path / "train.txt", small_dataset())
    write_dataset(tmp_path / "classes.txt", small_dataset(K=1))
    for model in models:
        data = "classes.txt" if model == "classes" else "train.txt"
        assert run("train", data, model, "-q", "--no-cache", *SMALL[model]).exit_code == 0
    result = run("plot", "bound", *models)
    assert (result.exit_code, result.output) == (0, "bound.png\n")
    assert (tmp_path / "bound.png").read_bytes().startswith(b"\x89PNG")
    assert axes == expected
    assert sorted(labels) == sorted(models)


def test_untrained_models_are_refused(tmp_path):
    write_dataset(tmp_path / "train.txt", small_dataset())
    for options in ([], ["--model", "bmlpl"]):
        assert run("preprocess", "train.txt", "model", "-q", "--no-cache", *options).exit_code == 0
        message = said(run("plot", "bound", "model"))
        assert message == "model: the model is preprocessed, but not trained yet"
    assert said(run("plot", "bound", "nowhere")) == "nowhere: there is no model here (no model.json)"
    assert not (tmp_path / "bound.png").exists()


def test_a_scores_file_is_a_curve_with_its_measures(tmp_path, labels):
    result = run("plot", "reliability", "all.scores", "test.txt")
    assert (result.exit_code, result.stdout) == (0, "reliability.png\n")
    assert result.stderr.splitlines() == ["The curve of all.scores is over all 3 labels of each point"]
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
    loss = sklearn.metrics.log_loss(TRUTH, PROBABILITIES)
    # Each probability is in a bin of its own.
    error = sum(abs(y - p) for y, p in zip(TRUTH, PROBABILITIES, strict=True)) / 9
    assert [label for label in labels if label] == ["calibrated", f"all.scores: log loss {loss:.4f}, ECE {error:.4f}"]


def test_standard_streams_and_gzip(tmp_path):
    (tmp_path / "all.scores.gz").write_bytes(gzip.compress(ALL.encode()))
    piped = run("plot", "reliability", "all.scores.gz", "-", "test.txt", "-o", "-", stdin=TOP.encode())
    assert piped.exit_code == 0
    assert piped.stdout_bytes.startswith(b"\x89PNG")
    assert "The curve of - is over the 3 listed labels only, at most 2 of 3 per point" in piped.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("3 3\n0:-1.5\n\n\n", "b.scores contains scores outside [0, 1]"),
        ("3 3\n\n\n\n", "b.scores contains no scores, so there are no probabilities to evaluate"),
        ("2 3\n0:0.5\n\n", "b.scores: the probabilities are 2×3, the true labels 3×3"),
        ("3 3\n0:x\n\n\n", "b.scores:2: label 0 has 'x' instead of a finite decimal number"),
    ],
)
def test_unplottable_scores_are_a_one_line_error(tmp_path, content, sentence):
    (tmp_path / "b.scores").write_text(content)
    message = said(run("plot", "reliability", "-q", "all.scores", "b.scores", "test.txt"))
    assert message.startswith(sentence)
    assert not (tmp_path / "reliability.png").exists()


def test_wrong_use():
    assert said(run("plot", "reliability", "-", "-"), status=2).startswith("Only one of SCORES, DATA")
    assert "Missing argument" in said(run("plot", "reliability", "all.scores"), status=2)
    assert said(run("plot", "reliability", "-q", "no.scores", "test.txt")) == "no.scores: No such file or directory"
    message = said(run("plot", "reliability", "-q", "all.scores", "test.txt", "-o", "a.foo"))
    assert message == "a.foo: figures are written as png, pdf or svg, not as foo"


@pytest.mark.parametrize("options", [["--by", "frequency"], ["--by", "rank", "--train", "test.txt"]], ids=" ".join)
def test_training_data_are_for_frequencies(options):
    message = said(run("plot", "reliability", "all.scores", "test.txt", *options), status=2)
    assert message == "--by frequency needs --train, which has no other use."


def test_training_data_of_other_labels(tmp_path):
    (tmp_path / "other.txt").write_text("1 1 7\n6 0:1\n")
    arguments = "all.scores", "test.txt", "--by", "frequency", "--train", "other.txt"
    message = said(run("plot", "reliability", "-q", *arguments))
    assert message == "--train: other.txt has 7 labels, but test.txt has 3 labels"
    assert not (tmp_path / "reliability.png").exists()


@pytest.mark.parametrize("options", [["--by", "rank"], ["--by", "frequency", "--train", "test.txt"]], ids=" ".join)
def test_reliability_by_rank_and_by_frequency(drawn, options):
    result = run("plot", "reliability", "all.scores", "test.txt", "-k", "2", *options)
    assert (result.exit_code, result.stdout) == (0, "reliability.png\n")
    assert result.stderr == "The curve of all.scores is over the best 2 labels of each point\n"
    (axis,) = drawn[0].axes
    frequency, probability = axis.get_lines()
    assert frequency.get_label() == "all.scores"
    if "rank" in options:
        assert axis.get_xlabel() == "rank of the label for its point"
        assert len(frequency.get_xdata()) == len(probability.get_xdata()) == 2
    else:
        assert axis.get_xlabel() == "training points of the label"


def test_reliability_of_binary_data_in_libsvm_format(tmp_path, labels):
    (tmp_path / "one.svm").write_text("".join(f"{label} 1:1\n" for label in TRUTH))
    (tmp_path / "one.scores").write_text("9 1\n" + "".join(f"0:{score}\n" for score in PROBABILITIES))
    result = run("plot", "reliability", "-q", "one.scores", "one.svm")
    assert (result.exit_code, result.output) == (0, "reliability.png\n")
    loss = sklearn.metrics.log_loss(TRUTH, PROBABILITIES)
    assert any(label and label.startswith(f"one.scores: log loss {loss:.4f}, ") for label in labels)
