"""What the tests of `xmlgp learn` share: new points, and what stays as it was."""

from pathlib import Path

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.cli.test_interruption import assert_no_other_files
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder

__all__ = ["STEP", "arrays", "assert_same_model", "learner", "more", "refused", "retrain", "text_learner"]

#: Inducing inputs, with options to train with them.
INDUCING = {
    "free": ["--inducing", "free", "--no-label-weights"],
    "features": ["--inducing", "features", "--label-weights"],
}

STEP = "xmlgp.mlgpf.incremental.IncrementalTraining.step"


def more(N=30, D=28, K=9, seed=11):
    """Return points, by default with three features and two labels more."""
    return small_dataset(N=N, D=D, K=K, seed=seed)


@pytest.fixture
def learner(model, monkeypatch):
    """Return a trained model that learns on in few steps, after each of which there is a checkpoint; see new.txt."""
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 6)
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)
    write_dataset("new.txt", more())
    return model


@pytest.fixture
def text_learner(text_model, monkeypatch):
    """Return a model of documents; new ones with another word and label are in more.jsonl."""
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)
    fresh = documents(20, 1)
    for document in fresh[::2]:
        document["text"] += " violet violet"
        document["labels"].append("the violet")
    Path("more.jsonl").write_text(as_json(fresh))
    return text_model


def retrain(inducing):
    """Train the model again with some inducing inputs."""
    assert run("train", "data", "model", *SMALL, *INDUCING[inducing], "-q").output == ""


def arrays(path):
    """Return the arrays of a model."""
    return {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in ModelFolder(path).arrays("").items()
    }


def assert_same_model(path, expected):
    """Check that two folders have the same model, and the first nothing else."""
    assert arrays(path) == arrays(expected)
    ours, theirs = (ModelFolder(folder).description for folder in (path, expected))
    for name in ("data", "settings", "stage", "model"):
        assert ours[name] == theirs[name]
    for batch, other in zip(ours["learned"], theirs["learned"], strict=True):
        assert batch | {"history": None} == other | {"history": None}
    assert_no_other_files(Path(path))


def refused(folder, *arguments, status=1, **options):
    """Return what the command says that it refuses; check that the folder stays as it was."""
    before = everything(folder)
    line = said(run("learn", *arguments, **options), status)
    assert everything(folder) == before
    assert len(line) < 400
    return line
