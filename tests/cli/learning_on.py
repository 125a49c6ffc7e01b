"""What the tests of `xmlgp learn` share: models to learn on with, new points, and what stays as it was."""

import shutil
from pathlib import Path

from tests.cli.command import SMALL, run, said
from tests.cli.disk import everything
from tests.cli.test_interruption import assert_no_other_files
from tests.cli.test_predict_text import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS

N_KNOWN, D_KNOWN, K_KNOWN = 40, 25, 7

#: With label weights, which learning on changes beside the latent functions.
TRAIN = ["train", "data", "model", *SMALL, "--label-weights", "-q"]

#: Inducing inputs, with options to train with them; the last option counts.
INDUCING = {"free": ["--inducing", "free", "--no-label-weights"], "features": ["--inducing", "features"]}

#: Models that cannot learn on.
CANNOT = [name for name, record in MODELS.items() if record.learn is None]

STEP = "xmlgp.mlgpf.learning.LearningOn.step"
WRITE = "xmlgp.model_folder.arrays.write_array"


def more(N=30, D=D_KNOWN + 3, K=K_KNOWN + 2, seed=11):
    return small_dataset(N=N, D=D, K=K, seed=seed)


def train_once(workdir, name, command):
    """Train `model`, or copy what the same command has trained for an earlier test."""
    kept = workdir.parent / f"learning-on-{name}"
    if not kept.exists():
        assert run(*command).exit_code == 0
        shutil.copytree("model", kept)
    else:
        shutil.copytree(kept, "model")


def train_model(workdir, monkeypatch):
    """Return a trained model; new points are in new.txt."""
    monkeypatch.setattr("xmlgp.training.checkpoints.TIME_RATIO", 0)
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 6)
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)
    train_once(workdir, "rows", TRAIN)
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


def train_text_model(workdir, monkeypatch):
    """Return a model of documents; new ones with another word and label are in new.jsonl."""
    monkeypatch.setattr("xmlgp.mlgpf.inducing.InducingMethod.learning_steps", 6)
    (workdir / "train.jsonl").write_text(as_json(documents(60, 0)))
    train_once(workdir, "text", ["train", "train.jsonl", "model", *SMALL, "-q"])
    fresh = documents(20, 1)
    for document in fresh[::2]:
        document["text"] += " violet violet"
        document["labels"].append("the violet")
    (workdir / "new.jsonl").write_text(as_json(fresh))
    return workdir / "model"
