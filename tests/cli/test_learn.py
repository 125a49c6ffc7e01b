"""`xmlgp learn`: rows and text, added labels, interruptions, and what it refuses without changing anything."""

import errno
import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import SMALL, run, said, spawn
from tests.cli.disk import everything, failing_disk
from tests.cli.test_interruption import assert_no_other_files, signals_at
from tests.cli.test_predict_text import as_json, documents
from tests.problems import paired_dataset, small_dataset
from xmlgp.data.dataset import Dataset, stack
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.runs.interrupted import InterruptedRun

N_KNOWN, D_KNOWN, K_KNOWN = 40, 25, 7

#: Without held-out points, so that training is short.
TRAIN = ["train", "data", "model", *SMALL, "--validation", "0", "--label-weights", "-q"]

#: Models that cannot learn on.
CANNOT = [name for name, record in MODELS.items() if record.learn is None]

STEP = "xmlgp.mlgpf.learning.LearningAscent.step"
WRITE = "xmlgp.model_folder.arrays._write"


def more(N=30, D=D_KNOWN + 3, K=K_KNOWN + 2, seed=11):
    return small_dataset(N=N, D=D, K=K, seed=seed)


@pytest.fixture
def model(workdir, monkeypatch):
    """Return a trained model; new points are in new.txt."""
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    monkeypatch.setattr("xmlgp.mlgpf.learning.STEPS", 6)
    monkeypatch.setattr("xmlgp.mlgpf.learning.STEPS_IN_WEIGHT_SPACE", 6)
    assert run(*TRAIN).exit_code == 0
    write_dataset("new.txt", more())
    return workdir / "model"


def arrays(path):
    return {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in ModelFolder(path).arrays("").items()
    }


def described(path):
    """Return the description without what a run takes."""
    description = dict(ModelFolder(path).description)
    return {name: description[name] for name in ("data", "settings", "stage", "model")} | {
        "learned": [{key: batch[key] for key in ("N", "D", "K", "fingerprint")} for batch in description["learned"]]
    }


def assert_same_model(path, expected):
    assert arrays(path) == arrays(expected)
    assert described(path) == described(expected)
    assert_no_other_files(Path(path))


def refused(folder, *arguments, status=1, **options):
    """Return what the command says that it refuses; check that the folder stays as it was."""
    before = everything(folder)
    line = said(run("learn", *arguments, **options), status)
    assert everything(folder) == before
    assert len(line) < 400
    return line


# Rows


@pytest.mark.parametrize("inducing", ["free", "subspace", "features"])
def test_new_points_features_and_labels_are_learned(model, inducing):
    assert run(*TRAIN, "--inducing", inducing).exit_code == 0
    before = ModelFolder("model").description
    result = run("learn", "model", "new.txt")
    assert (result.exit_code, result.stdout) == (0, "")
    learned, knows = result.stderr.splitlines()
    assert re.fullmatch(
        r"model: learned 30 points, 2 new labels, 3 new features: bound -[0-9.]+, in [0-9.]+ s", learned
    )
    assert knows == "model: knows 70 points, 28 features and 9 labels"
    folder = ModelFolder("model")
    data = folder.description["data"]
    assert {name: data[name] for name in "NDK"} == {"N": 70, "D": 28, "K": 9}
    assert data["first"] == before["data"]["fingerprint"]
    assert data["fingerprint"] not in (before["data"]["fingerprint"], more().fingerprint)
    (batch,) = folder.description["learned"]
    assert {name: batch[name] for name in "NDK"} == {"N": 30, "D": 3, "K": 2}
    assert batch["fingerprint"] == more().fingerprint
    assert [entry["epoch"] for entry in batch["history"]] == [1, 2]
    for name in ("history", "validation", "settings"):
        assert folder.description[name] == before[name]
    assert_no_other_files(model)
    write_dataset("test.txt", more(9, seed=12))
    assert run("predict", "model", "test.txt", "-o", "scores.txt", "-k", "all").exit_code == 0
    assert run("evaluate", "scores.txt", "test.txt").exit_code == 0


def test_quiet_prints_nothing(model):
    result = run("learn", "model", "new.txt", "-q")
    assert (result.exit_code, result.output) == (0, "")


def test_standard_input_and_gzip_give_the_same_model(model):
    shutil.copytree("model", "piped")
    shutil.copytree("model", "packed")
    text = Path("new.txt").read_bytes()
    Path("new.txt.gz").write_bytes(gzip.compress(text))
    assert run("learn", "model", "new.txt").exit_code == 0
    assert run("learn", "piped", "-", stdin=text).exit_code == 0
    assert run("learn", "packed", "new.txt.gz").exit_code == 0
    assert_same_model("piped", "model")
    assert_same_model("packed", "model")


def test_points_are_not_learned_twice(model):
    run("learn", "model", "new.txt", "-q")
    before = everything(model)
    for options in ([], ["--resume"], ["--no-resume"]):
        result = run("learn", "model", "new.txt", *options)
        line = "model: the model has learned these points already; nothing to do\n"
        assert (result.exit_code, result.output) == (0, line)
        assert everything(model) == before


def test_points_of_training_are_not_learned_again(model):
    write_dataset("other.txt", more(D=D_KNOWN, K=K_KNOWN))
    before = everything(model)
    for _ in range(2):
        result = run("learn", "model", "data/train.txt")
        assert result.stderr == "model: the model has learned these points already; nothing to do\n"
        assert everything(model) == before
        run("learn", "model", "other.txt", "-q")
        before = everything(model)


def test_several_batches_are_listed(model):
    write_dataset("other.txt", more(5, D_KNOWN + 3, K_KNOWN + 3, seed=13))
    for file in ("new.txt", "other.txt"):
        assert run("learn", "model", file, "-q").exit_code == 0
    lines = run("show", "model").stdout.splitlines()
    assert "data      N 75, D 28, K 10, fingerprint " in lines[1]
    first, second = [line for line in lines if line.startswith("learned ")]
    assert re.fullmatch("learned   30 points, 2 new labels, 3 new features: bound -.*", first)
    assert re.fullmatch("learned   5 points, 1 new label: bound -.*", second)
    facts = json.loads(run("show", "--json", "model").stdout)
    assert [batch["N"] for batch in facts["learned"]] == [30, 5]


def test_arrays_that_do_not_change_are_not_written_again(model):
    before = ModelFolder("model").entries("")
    write_dataset("other.txt", more(D=D_KNOWN, K=K_KNOWN))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    after = ModelFolder("model").entries("")
    assert after["parameters.inducing"] == before["parameters.inducing"]
    assert after["parameters.bias"] != before["parameters.bias"]
    assert_no_other_files(model)


def test_what_was_tuned_stays(model):
    assert run("tune", "model", "data/test.txt", "-q").exit_code == 0
    tuned = ModelFolder("model").tuned
    assert tuned is not None
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    assert ModelFolder("model").tuned == tuned
    assert run("predict", "model", "new.txt", "-q").exit_code == 0


def test_points_of_one_label_in_libsvm_format(workdir):
    write_libsvm("train.svm", small_dataset(K=1))
    assert run("train", "train.svm", "model", *SMALL, "--model", "mlgpf", "-q").exit_code == 0
    Path("new.svm").write_text("+1 3:1 28:2\n")
    learned, knows = run("learn", "model", "new.svm").stderr.splitlines()
    assert learned.startswith("model: learned 1 point, 3 new features: bound -")
    assert knows == "model: knows 41 points, 28 features and 1 label"
    # Fewer features are no mistake in this format.
    write_libsvm("few.svm", more(5, D=9, K=1))
    assert run("learn", "model", "few.svm", "-q").exit_code == 0
    Path("other.svm").write_text("2 1:1\n3 2:1\n")
    assert refused(workdir / "model", "model", "other.svm").startswith("other.svm:1: label 2 is not one of ")


def write_libsvm(path, dataset):
    dump_svmlight_file(dataset.features.toarray(), 2 * dataset.labels.toarray()[:, 0] - 1, path, zero_based=False)


def test_another_format_than_that_of_training_is_refused(model):
    write_libsvm("new.svm", more(K=1))
    line = refused(model, "model", "new.svm")
    assert line.startswith("new.svm: the points have 1 label, but the model was trained on 7; ")


# Names and text


@pytest.fixture
def text(workdir, monkeypatch):
    """Return a model of documents; new ones with another word and label are in new.jsonl."""
    monkeypatch.setattr("xmlgp.mlgpf.learning.STEPS", 6)
    (workdir / "train.jsonl").write_text(as_json(documents(60, 0)))
    assert run("train", "train.jsonl", "model", *SMALL, "--validation", "0", "-q").exit_code == 0
    fresh = documents(20, 1)
    for document in fresh[::2]:
        document["text"] += " violet violet"
        document["labels"].append("the violet")
    (workdir / "new.jsonl").write_text(as_json(fresh))
    return workdir / "model"


def test_words_and_labels_of_text_are_added(text):
    names = ModelFolder("model").names
    result = run("learn", "model", "new.jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "model: learned 20 points, 1 new label, 1 new feature: bound -" in result.stderr
    found = ModelFolder("model").names
    assert found.labels == [*names.labels, "the violet"]
    assert found.features == [*names.features, "violet"]
    assert found.vectorizer.words == found.features
    result = run("predict", "model", "-", "--format", "jsonl", "-k", "9", stdin='{"text": "violet", "labels": []}\n')
    assert result.exit_code == 0, result.output
    assert "the violet" in result.stdout


def test_documents_are_not_learned_twice(text):
    run("learn", "model", "new.jsonl", "-q")
    before = everything(text)
    for _ in range(2):
        result = run("learn", "model", "new.jsonl")
        assert result.exit_code == 0
        assert result.stderr.splitlines()[-1] == "model: the model has learned these points already; nothing to do"
        assert everything(text) == before


def test_documents_are_not_learned_twice_after_others(text):
    run("learn", "model", "new.jsonl", "-q")
    Path("other.jsonl").write_text('{"text": "indigo red", "labels": ["the indigo"]}\n' + as_json(documents(9, 3)))
    run("learn", "model", "other.jsonl", "-q")
    assert len(ModelFolder("model").names.labels) == 7
    before = everything(text)
    for file in ("new.jsonl", "other.jsonl", "train.jsonl"):
        result = run("learn", "model", file)
        assert result.stderr.splitlines()[-1] == "model: the model has learned these points already; nothing to do"
        assert everything(text) == before


def test_added_labels_leave_the_answers_of_known_ones(text):
    before = run("predict", "model", "new.jsonl", "-k", "5").stdout
    Path("labels").write_text("the violet\nthe indigo\n")
    result = run("learn", "model", "--add-labels", "labels")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0].startswith("model: learned 2 new labels, in ")
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]
    assert run("predict", "model", "new.jsonl", "-k", "5").stdout == before
    assert "fingerprint" in ModelFolder("model").description["data"]
    # The documents have one of them.
    result = run("learn", "model", "new.jsonl")
    assert "model: learned 20 points, 1 new feature: bound -" in result.stderr
    assert ModelFolder("model").names.labels[-2:] == ["the violet", "the indigo"]
    assert "learned   2 new labels" in run("show", "model").stdout


def test_show_sums_up_all_but_the_last_batches(model, monkeypatch):
    monkeypatch.setattr("xmlgp.cli.show.BATCHES", 1)
    for seed, count in enumerate((3, 4, 5)):
        write_dataset("new.txt", more(N=count, seed=seed))
        assert run("learn", "model", "new.txt", "-q").exit_code == 0
    lines = [line for line in run("show", "model").stdout.splitlines() if line.startswith("learned")]
    assert lines[0] == "learned   2 batches of 7 points, and then"
    assert lines[1].startswith("learned   5 points: bound ")
    assert len(lines) == 2


def test_labels_and_points_are_added_together(text):
    Path("labels").write_text("the indigo\n")
    result = run("learn", "model", "new.jsonl", "--add-labels", "labels")
    assert "model: learned 20 points, 2 new labels, 1 new feature: bound -" in result.stderr
    assert ModelFolder("model").names.labels[-2:] == ["the indigo", "the violet"]


def test_names_from_standard_input(text):
    assert run("learn", "model", "--add-labels", "-", stdin="the indigo\n").exit_code == 0
    assert ModelFolder("model").names.labels[-1] == "the indigo"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a\n\n", "labels:2: this line is empty, but each line must have the name of a label"),
        ("a\nb\na\n", "labels:3: label 'a' is in line 1 already"),
        ("", "labels:1: the file is empty"),
        ("a\tb\n", None),
        (b"\xff\n", None),
    ],
)
def test_bad_names_are_refused(text, content, reason):
    Path("labels").write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refused(text, "model", "--add-labels", "labels")
    assert line.startswith("labels:1: ") if reason is None else line == reason


def test_labels_that_the_model_has_are_not_added_again(text):
    Path("labels").write_text("the red\nnew\n")
    assert run("learn", "model", "--add-labels", "labels", "-q").exit_code == 0
    K = ModelFolder("model").description["data"]["K"]
    result = run("learn", "model", "--add-labels", "labels")
    assert result.exit_code == 0
    assert result.stderr == "model: the model has these labels already; nothing to do\n"
    assert ModelFolder("model").description["data"]["K"] == K


def test_labels_are_added_though_the_points_are_known(text):
    Path("labels").write_text("the indigo\n")
    assert run("learn", "model", "new.jsonl", "-q").exit_code == 0
    N = ModelFolder("model").description["data"]["N"]
    assert run("learn", "model", "new.jsonl", "--add-labels", "labels").exit_code == 0
    folder = ModelFolder("model")
    assert folder.names.labels[-1] == "the indigo"
    assert folder.description["data"]["N"] == N


def test_no_points_are_not_a_batch(model):
    Path("none.txt").write_text(f"0 {D_KNOWN} {K_KNOWN}\n")
    result = run("learn", "model", "none.txt")
    assert result.exit_code == 0
    assert result.stderr == "model: there are no points; nothing to do\n"
    assert "learned" not in ModelFolder("model").description


def test_only_one_argument_can_be_standard_input(text):
    line = refused(text, "model", "-", "--add-labels", "-", status=2)
    assert line == "Only one of DATA and --add-labels can be standard input."


def test_features_that_are_too_large_are_refused(workdir):
    assert run(*TRAIN, "--weighting", "none").exit_code == 0
    Path("new.txt").write_text(f"1 {D_KNOWN} {K_KNOWN}\n1 0:1e18\n")
    line = refused(workdir / "model", "model", "new.txt")
    assert line.startswith("features are as large as 1e+18")


def test_documents_without_any_are_refused(text):
    Path("none.jsonl").write_text("")
    refused(text, "model", "none.jsonl")


def test_text_for_a_model_of_rows_is_refused(model):
    Path("new.jsonl").write_text(as_json(documents(5, 1)))
    assert refused(model, "model", "new.jsonl") == "new.jsonl is text, but the model was not trained on text"


def test_names_that_clash_are_refused(text):
    names = ModelFolder("model").names
    os.mkdir("rows")
    write_dataset("rows/new.txt", small_dataset(D=len(names.features), K=len(names.labels)))
    Path("rows/labels.txt").write_text("".join(f"{name}\n" for name in names.labels[::-1]))
    assert "names that clash: label 0 is " in refused(text, "model", "rows/new.txt")


# What is refused


@pytest.mark.parametrize(
    ("D", "K", "reason"),
    [
        (D_KNOWN - 1, K_KNOWN, "the points have 24 features, but the model was trained on 25"),
        (D_KNOWN, K_KNOWN - 1, "the points have 6 labels, but the model was trained on 7"),
    ],
)
def test_points_with_fewer_features_or_labels_are_refused(model, D, K, reason):
    write_dataset("new.txt", more(D=D, K=K))
    line = refused(model, "model", "new.txt")
    assert line == f"new.txt: {reason}; points to learn from need at least as many"


@pytest.mark.parametrize("content", ["", "1 2\n", "2 25 7\n0 0:1\n", "1 25 7\n0 99:1\n", "1 25 7\n0 0:nan\n", "\0\n"])
def test_malformed_points_are_refused(model, content):
    Path("new.txt").write_text(content)
    refused(model, "model", "new.txt")
    refused(model, "model", "-", stdin=content)


def test_missing_points_are_refused(model):
    assert "missing.txt" in refused(model, "model", "missing.txt")


def test_nothing_to_learn_is_a_wrong_use(model):
    assert refused(model, "model", status=2) == "Nothing to learn: give DATA, or --add-labels."


def test_a_model_of_rows_has_no_names_to_add_to(model):
    Path("labels").write_text("a\n")
    line = refused(model, "model", "--add-labels", "labels")
    assert line == "labels:1: the model of 7 labels has no names of labels, so none can be added"


@pytest.mark.parametrize("kind", CANNOT)
def test_models_that_cannot_learn_on_are_refused(workdir, kind):
    write_dataset("data/train.txt", paired_dataset(K=1))
    options = ["-M", "6"] if kind == "gpc" else []
    assert run("train", "data", "model", "--model", kind, "--iterations", "2", "-q", *options).exit_code == 0
    write_dataset("new.txt", paired_dataset(K=1, seed=1))
    line = refused(workdir / "model", "model", "new.txt")
    assert re.fullmatch("a model of (gpc|bmlpl) cannot learn on, only .* can; train again on all points together", line)


def test_a_folder_that_is_only_preprocessed_is_refused(workdir):
    assert run("preprocess", "data", "model", "-M", "5", "-q").exit_code == 0
    write_dataset("new.txt", more())
    line = refused(workdir / "model", "model", "new.txt")
    assert line == "model: the model is preprocessed, but not trained yet"


def test_a_missing_model_is_refused(workdir):
    write_dataset("new.txt", more())
    before = everything(workdir)
    said(run("learn", "missing", "new.txt"))
    os.mkdir("empty")
    said(run("learn", "empty", "new.txt"))
    os.rmdir("empty")
    assert everything(workdir).keys() - before.keys() <= {"cache"}


@pytest.mark.parametrize("name", ["parameters.bias", "parameters.statistics.labels", "preprocess.inducing"])
@pytest.mark.parametrize("damage", ["missing", "short", "other"])
def test_a_damaged_model_is_refused(model, name, damage):
    file = model / ModelFolder("model").entries("")[name]["file"]
    if damage == "missing":
        file.unlink()
    elif damage == "short":
        file.write_bytes(file.read_bytes()[:-4])
    else:
        file.write_bytes(b"x" * 100)
    assert refused(model, "model", "new.txt").startswith("model")


def test_a_damaged_description_is_refused(model):
    (model / "model.json").write_text("{}")
    assert refused(model, "model", "new.txt").startswith("model/model.json")


def test_a_model_of_an_older_xmlgp_is_refused(model):
    file = model / "model.json"
    description = json.loads(file.read_text())
    for name in [name for name in description["arrays"] if name.startswith("parameters.statistics.")]:
        (model / description["arrays"].pop(name)["file"]).unlink()
    file.write_text(json.dumps(description))
    assert run("predict", "model", "data/test.txt").exit_code == 0
    line = refused(model, "model", "new.txt")
    assert line == "the model was trained by an older xmlgp, without what learning on needs; train it again"


@pytest.mark.parametrize(
    "batches", [{}, [1], [{"N": 1}], [{"N": -1, "D": 0, "K": 0, "fingerprint": "a", "history": []}]], ids=str
)
def test_damaged_descriptions_of_batches_are_refused(model, batches):
    file = model / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"learned": batches}))
    assert refused(model, "model", "new.txt") == "model/model.json: the description of the model is damaged"
    assert said(run("show", "model")) == "model/model.json: the description of the model is damaged"


#: Shares of the operations that change the folder.
MOMENTS = [0, 0.2, 0.4, 0.6, 0.8, 1]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_folder_that_cannot_be_written_keeps_its_model(model, monkeypatch, code, lasting):
    monkeypatch.setattr("xmlgp.mlgpf.learning.STEPS", 3)
    monkeypatch.setattr("xmlgp.mlgpf.learning.LEAST_EPOCHS", 1)
    shutil.copytree("model", "before")
    command = ["learn", "model", "new.txt", "-q", "--no-cache", "--checkpoint-every", "1e-9"]
    with failing_disk(monkeypatch, model, math.inf, None) as trial:
        assert run(*command).exit_code == 0
    expected, failures = arrays("model"), 0
    for share in MOMENTS:
        shutil.rmtree("model")
        shutil.copytree("before", "model")
        with failing_disk(monkeypatch, model, 1 + round(share * (len(trial.done) - 1)), code, lasting):
            result = run(*command)
        if result.exit_code:
            assert (result.exit_code, result.stdout) == (1, "")
            assert re.fullmatch("Error: .*model.*", result.stderr.splitlines()[-1])
            assert arrays("model") == arrays("before")
            failures += 1
        # Files that could not be removed are harmless.
        assert run(*command).exit_code == 0
        assert arrays("model") == expected
    assert failures >= 3


# Interruptions


def interrupt(step, number=signal.SIGINT, *options):
    """Interrupt learning in a step; return what it says last."""
    with signals_at(STEP, step, number):
        result = run("learn", "model", "new.txt", *options)
    assert (result.exit_code, result.stdout) == (128 + number, "")
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("inducing", ["free", "features"])
@pytest.mark.parametrize("step", [1, 3, 8, 9])
def test_an_interrupted_run_goes_on_with_the_same_result(model, inducing, step):
    assert run(*TRAIN, "--inducing", inducing).exit_code == 0
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    line = interrupt(step)
    found = re.fullmatch(
        r"interrupted; stopped after (\d+) of (\d+) steps; go on with `xmlgp learn model new.txt`", line
    )
    assert found, line
    assert int(found[1]) == step
    assert arrays("model") == before
    assert run("predict", "model", "data/test.txt").exit_code == 0
    shown = run("show", "model").stdout
    assert f"a run that was interrupted after {step} of {found[2]} steps; resume with `xmlgp learn model DATA`" in shown
    result = run("learn", "model", "new.txt")
    assert result.stderr.splitlines()[0] == f"model: resuming after {step} of {found[2]} steps"
    assert_same_model("model", "whole")


PHASES = {
    "reading": "xmlgp.cli.learn.read_more_data",
    "growing": "xmlgp.runs.learn.grow",
    "step": STEP,
    "putting back": "xmlgp.mlgpf.learning.put_labels",
    "regression": "xmlgp.mlgpf.learning.add_points",
    "saving": WRITE,
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_leaves_the_model(model, phase, after):
    shutil.copytree("model", "whole")
    before = arrays("model")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    number = signal.SIGTERM if after else signal.SIGHUP
    with signals_at(PHASES[phase], 1, number, after=after):
        result = run("learn", "model", "new.txt", "-q")
    assert (result.exit_code, result.stdout) == (128 + number, "")
    assert not (model / ".lock").exists()
    assert arrays("model") == before
    assert_no_other_files(model)
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    assert_same_model("model", "whole")


@pytest.mark.parametrize("name", ["xmlgp.model_folder.folder.atomic_write", "xmlgp.runs.learn._write"])
def test_a_signal_while_the_model_is_replaced_comes_after_it(model, name):
    shutil.copytree("model", "whole")
    assert run("learn", "whole", "new.txt", "-q").exit_code == 0
    with signals_at(name, 1, signal.SIGTERM, after=name.endswith("_write")):
        # A checkpoint is left as well.
        assert run("learn", "model", "new.txt", "-q", "--checkpoint-every", "1e-9").exit_code == 143
    assert arrays("model") == arrays("whole")
    result = run("learn", "model", "new.txt")
    line = "model: the model has learned these points already; nothing to do\n"
    assert (result.exit_code, result.stderr) == (0, line)
    assert arrays("model") == arrays("whole")
    # Nothing is left that could be resumed.
    assert InterruptedRun.read("model") is None
    write_dataset("other.txt", more(3, seed=13))
    assert run("learn", "model", "other.txt", "-q").exit_code == 0
    assert_no_other_files(model)


def test_a_run_killed_at_any_moment_leaves_a_model_and_ends_with_the_same(workdir):
    write_dataset("data/train.txt", paired_dataset(N=120))
    write_dataset("new.txt", paired_dataset(N=30, D=28, K=9, seed=1))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.cli.killing_learn"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = [json.loads(line) for line in result.stdout.splitlines()]
    assert [outcome for outcome in outcomes if outcome["differs"] or len(outcome["kept"]) != 1] == []
    assert all(outcome["status"] == -signal.SIGKILL for outcome in outcomes)
    assert {outcome["kept"][0] for outcome in outcomes} == {"before", "whole"}


def test_the_command_to_go_on_has_the_options(text):
    Path("labels").write_text("the indigo\n")
    with signals_at(STEP, 2, signal.SIGINT):
        result = run("learn", "model", "new.jsonl", "--text-column", "text", "--add-labels", "labels")
    command = re.search("go on with `(.*)`", result.stderr)[1]
    assert command == "xmlgp learn model new.jsonl --text-column text --add-labels labels"
    assert run(*command.split()[1:]).exit_code == 0
    assert ModelFolder("model").names.labels[-2:] == ["the indigo", "the violet"]


def test_standard_input_goes_on_with_the_same_input(model):
    content = Path("new.txt").read_text()
    with signals_at(STEP, 2, signal.SIGINT):
        result = run("learn", "model", "-", stdin=content)
    assert result.stderr.splitlines()[-1].endswith("; go on with `xmlgp learn model -` and the same input")
    assert "resuming after 2 of " in run("learn", "model", "-", stdin=content).stderr


def test_a_run_of_other_points_is_discarded_or_refused(model):
    interrupt(3)
    write_dataset("other.txt", more(seed=13))
    line = refused(model, "model", "other.txt", "--resume")
    assert re.fullmatch(
        "model: an unfinished run of learning other points exists, which stopped after 3 of [0-9]+ steps; finish it, "
        "or use --no-resume",
        line,
    )
    result = run("learn", "model", "other.txt")
    assert result.exit_code == 0
    assert re.match("model: discarding the run that was interrupted after 3 of [0-9]+ steps\n", result.stderr)
    assert_no_other_files(model)


def test_without_resuming_a_run_starts_anew(model):
    shutil.copytree("model", "whole")
    run("learn", "whole", "new.txt", "-q")
    interrupt(3)
    result = run("learn", "model", "new.txt", "--no-resume")
    assert "resuming" not in result.stderr
    assert_same_model("model", "whole")
    result = run("learn", "whole", "data/train.txt", "--resume")
    assert result.exit_code == 1


def test_resume_without_a_checkpoint_starts_anew(model):
    result = run("learn", "model", "new.txt", "--resume")
    assert result.stderr.splitlines()[0] == "model: no checkpoint found; starting anew"
    assert result.exit_code == 0


def test_without_checkpoints_nothing_is_left(model):
    before = everything(model)
    assert interrupt(3, signal.SIGINT, "--checkpoint-every", "0") == "interrupted"
    assert everything(model) == before


def test_training_does_not_resume_a_run_of_learning(model):
    interrupt(3)
    before = everything(model)
    line = said(run("train", "data", "model", "--resume"))
    assert line == "model: the interrupted run was one of `xmlgp learn`; resume it with that, or use --no-resume"
    assert everything(model) == before
    assert run(*TRAIN, "--no-resume").exit_code == 0
    assert_no_other_files(model)


def test_learning_does_not_resume_a_run_of_training(model):
    with signals_at("xmlgp.mlgpf.stochastic.StochasticAscent.step", 2, signal.SIGINT):
        assert run(*TRAIN, "--seed", "3").exit_code == 130
    line = refused(model, "model", "new.txt", "--resume")
    assert re.fullmatch(
        "model: an unfinished run of training exists, which stopped after 2 of [0-9]+ steps on all points; finish it, "
        "or use --no-resume",
        line,
    )
    result = run("learn", "model", "new.txt", "--no-resume", "-q")
    assert (result.exit_code, result.output) == (0, "")
    assert_no_other_files(model)


@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_a_damaged_checkpoint_is_refused(model, content):
    interrupt(3)
    (model / "checkpoint.npz").write_bytes(content)
    assert refused(model, "model", "new.txt").endswith("the checkpoint is damaged; use --no-resume to start a new run")
    assert run("learn", "model", "new.txt", "--no-resume", "-q").exit_code == 0
    assert_no_other_files(model)


def test_a_diverging_run_leaves_the_model(model, monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.learning.RATE_SHARE", 1e30)
    assert "train again on all points" in refused(model, "model", "new.txt", "-q")


def test_the_command_in_a_process_of_its_own(model):
    result = spawn("learn", "model", "new.txt")
    assert (result.returncode, result.stdout) == (0, b"")
    assert result.stderr.count(b"\n") == 2
    result = spawn("learn", "model", "data/train.txt")
    assert result.returncode == 1
    assert result.stderr.startswith(b"Error: data/train.txt: the points have ")


def test_propensities_of_a_model_are_those_of_all_points_that_it_learned(model):
    assert run("learn", "model", "new.txt", "-q").exit_code == 0
    first, new = (read_dataset(file) for file in ("data/train.txt", "new.txt"))
    wide = Dataset(resized(first.features, new.D), resized(first.labels, new.K))
    write_dataset("all.txt", stack([wide, new]))
    assert run("predict", "model", "new.txt", "-o", "scores", "-q").exit_code == 0
    found, expected = (
        run("evaluate", "scores", "new.txt", "--train", train, "--json") for train in ("model", "all.txt")
    )
    assert found.exit_code == expected.exit_code == 0
    assert json.loads(found.stdout) == json.loads(expected.stdout)
    assert "PSP@1" in found.stdout


def test_a_model_without_counts_has_no_propensities(model):
    assert run("predict", "model", "data/test.txt", "-o", "scores", "-q").exit_code == 0
    description = json.loads((model / "model.json").read_text())
    del description["arrays"]["parameters.statistics.labels"]
    (model / "model.json").write_text(json.dumps(description))
    found = run("evaluate", "scores", "data/test.txt", "--train", "model")
    assert found.exit_code == 1
    assert "the model has no counts of its labels" in found.stderr


def resized(matrix, columns):
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns))
