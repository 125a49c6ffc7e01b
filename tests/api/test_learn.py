"""`learn`: new points join the index of a model at once, or it is trained again as on all points at once."""

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import run
from tests.cli.disk import arrays, everything
from tests.cli.texts import as_json
from tests.problems import small_dataset
from xmlgp.api.interrupted import InterruptedRun
from xmlgp.api.points import TrainingData
from xmlgp.data.dataset import Dataset, Features, stack
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder
from xmlgp.model_folder.kept_points import arrays_of_points, points_from
from xmlgp.runtime.errors import ModelFolderError, SettingsError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import Reporter
from xmlgp.text.names import Names
from xmlgp.training import checkpoints

SETTINGS = {
    "mlgpf": {"model": "mlgpf", "factors": 3, "epochs": 2, "label_weights": True, "batch_size": 16},
    "bmlpl": {"model": "bmlpl", "topics": 3, "iterations": 3},
    "gpc": {"model": "gpc", "inducing_count": 4, "iterations": 2},
}


def points(kind):
    """Return the points of training and new ones."""
    data = small_dataset(60, K=1 if kind == "gpc" else 7)
    if kind == "gpc":
        data = Dataset(data.features.astype(np.float64), data.labels)
    return data.rows(slice(0, 40)), data.rows(slice(40, None))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "model"
    xmlgp.train(points("bmlpl")[0], path, settings=SETTINGS["bmlpl"])
    return path


@pytest.fixture
def model(tmp_path, trained):
    return shutil.copytree(trained, tmp_path / "model")


@pytest.mark.parametrize("kind", SETTINGS)
def test_training_again_is_training_on_all_points_at_once(tmp_path, kind):
    first, more = points(kind)
    xmlgp.train(first, tmp_path / "model", settings=SETTINGS[kind])
    # Only some models let points join without training.
    xmlgp.learn(tmp_path / "model", more)
    learned = xmlgp.learn(tmp_path / "model", retrain=True)
    xmlgp.train(stack([first, more]), tmp_path / "all", settings=SETTINGS[kind])
    assert arrays(tmp_path / "model") == arrays(tmp_path / "all")
    assert learned.data == ModelFolder(tmp_path / "all").description["data"]
    assert [batch["N"] for batch in learned.batches] == [40, 20]
    in_memory = xmlgp.learn(xmlgp.train(first, settings=SETTINGS[kind]), more, retrain=True)
    assert all(np.array_equal(value, learned.parameters[name]) for name, value in in_memory.parameters.items())


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """Write documents; new ones have words and labels that follow the earlier ones in the alphabet."""
    monkeypatch.chdir(tmp_path)
    first = [{"text": f"apple bread {'crumb' * (i % 2)}", "labels": ["food"]} for i in range(12)]
    more = [{"text": f"apple {'wind' * (i % 2)} zephyr", "labels": ["food", "weather"]} for i in range(6)]
    for name, documents in {"first": first, "more": more, "all": first + more}.items():
        Path(f"{name}.jsonl").write_text(as_json(documents))


@pytest.mark.usefixtures("corpora")
def test_new_words_and_labels_are_learned():
    options = "--model", "bmlpl", "--topics", "2", "--iterations", "3", "-q"
    assert run("train", "first.jsonl", "model", *options).exit_code == 0
    result = run("learn", "model", "more.jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "more.jsonl: 6 documents, 5 features (2 new), 2 labels (1 new)\n" in result.stderr
    assert "model: training again on 18 points\n" in result.stderr
    assert run("train", "all.jsonl", "whole", *options).exit_code == 0
    assert arrays("model") == arrays("whole")
    assert "learned     6 points after 12\n" in run("show", "model").stdout
    before = everything(Path())
    for name in "first", "more":
        line = run("learn", "model", f"{name}.jsonl").stderr.splitlines()[-1]
        assert line == "Note: model: the model has learned these points already; nothing to do"
    Path("none.jsonl").write_text("")
    assert run("learn", "model", "none.jsonl").stderr.endswith("model: there are no points; nothing to do\n")
    Path("none.jsonl").unlink()
    assert everything(Path()) == before


@pytest.mark.usefixtures("corpora")
def test_a_model_without_points_says_the_way_out():
    options = "--model", "bmlpl", "--topics", "2", "--iterations", "1", "--no-keep-points", "-q"
    assert run("train", "first.jsonl", "model", *options).exit_code == 0
    assert not ModelFolder("model").arrays("points.")
    result = run("learn", "model", "more.jsonl")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Error: model keeps no training points; train again on all points together"


def test_fewer_features_or_labels_are_refused(model):
    before = everything(model)
    for D, K, less in (
        (24, 7, "24 features, but the model was trained on 25"),
        (25, 1, "1 label, but the model .* on 7"),
    ):
        with pytest.raises(SettingsError, match=f"^the points: {less}; points to learn from need at least as many"):
            xmlgp.learn(model, small_dataset(5, D=D, K=K))
    with lock_model_folder(model), pytest.raises(ModelFolderError, match="is writing this model"):
        xmlgp.learn(model, small_dataset(5))
    assert everything(model) == before


def test_features_that_could_not_be_trained_on_are_refused():
    earlier, new = points("mlgpf")
    model = xmlgp.train(earlier, settings=SETTINGS["mlgpf"] | {"weighting": "none"})
    huge = Dataset(Features(new.features.sparse * np.float32(1e30)), new.labels)
    with pytest.raises(SettingsError, match="do not fit single precision; scale them, or train with another weighting"):
        xmlgp.learn(model, huge)


def test_a_folder_does_not_lose_its_names(tmp_path):
    names = Names([f"label {k}" for k in range(7)], [f"feature {d}" for d in range(25)])
    xmlgp.train(TrainingData(points("bmlpl")[0], "", names), tmp_path, settings=SETTINGS["bmlpl"])
    for wider, kind in (small_dataset(9, D=27), "features"), (small_dataset(9, K=9), "labels"):
        with pytest.raises(SettingsError, match=f"has names of {kind}, but the points have {kind} without a name$"):
            xmlgp.learn(tmp_path, wider)
    assert xmlgp.learn(tmp_path, small_dataset(9, seed=3)).names == names


def test_what_is_interrupted_leaves_the_model_and_resumes(model, monkeypatch):
    _, more = points("bmlpl")
    before = arrays(model)

    def stopping(self, state, epoch_ended=False):
        self.save(state())
        raise Interrupted(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.CheckpointWriter, "maybe_save", stopping)
        with pytest.raises(Interrupted) as caught:
            xmlgp.learn(model, more)
    assert caught.value.advice == "run the same command again to resume"
    assert arrays(model) == before
    other = shutil.copytree(model, model.parent / "other")
    notes = []
    xmlgp.learn(model, more, reporter=Reporter(note=notes.append))
    assert notes[1] == f"{model}: resuming after 1 of 3 steps of training"
    expected = xmlgp.learn(xmlgp.train(points("bmlpl")[0], settings=SETTINGS["bmlpl"]), more)
    found = xmlgp.load(model)
    assert all(np.array_equal(value, expected.parameters[name]) for name, value in found.parameters.items())
    # Other points start a new run.
    xmlgp.learn(other, small_dataset(9, seed=3), reporter=Reporter(note=notes.append))
    assert InterruptedRun.read(other) is None


@pytest.mark.parametrize("values", [[1, 2, 255], [0.5, 3], [0.1, 300], [1e-8, 70_000]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kept_points_are_those_that_were_read(values, dtype):
    data = small_dataset()
    X = data.features.sparse.astype(dtype)
    X.data[:] = np.resize(values, X.nnz)
    kept = points_from(arrays_of_points(Dataset(Features(X), data.labels)), data.facts)
    assert kept.fingerprint == Dataset(Features(X), data.labels).fingerprint


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indices", lambda array: array + 25),
        ("indptr", lambda array: array[::-1]),
        ("labels", lambda array: array - 1),
        ("label_indptr", lambda array: array[1:]),
        ("values", lambda array: array * 0),
    ],
)
def test_damaged_points_are_refused(model, name, change):
    found = xmlgp.load(model)
    found.points[name] = change(np.array(found.points[name]))
    found.save(model)
    with pytest.raises(ModelFolderError, match="the model is damaged, its training points do not fit it$"):
        xmlgp.learn(model, points("bmlpl")[1])
