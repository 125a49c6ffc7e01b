"""Small models of all kinds that differ in how they are read; the same in every run."""

import contextlib
import json
import os
from unittest import mock

import numpy as np

from tests.cli.command import run
from tests.fuzzing.npy_files import packed, unpacked
from tests.held_out import calibrated
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.text.analysis import Analysis
from xmlgp.text.word_counts import WordCounts

__all__ = ["DESCRIPTION", "NAMED", "make_originals"]

DESCRIPTION = "model.json"

SMALL = ["-P", "3", "--epochs", "2", "--batch-size", "16"]

FREE = ["train", *SMALL, "--inducing", "free", "-M", "6"]

TOPICS = ["--model", "bmlpl", "--topics", "3", "--iterations", "2"]

CLASSES = ["--model", "gpc", "-M", "6", "--iterations", "2"]

#: The command and its options.
KINDS = {
    "default": ["train", *SMALL, "--label-weights"],
    "free": FREE,
    "subspace": ["train", *SMALL, "--inducing", "subspace", "-M", "6", "-R", "9", "--posterior", "cholesky"]
    + ["--kernel", "se+linear"],
    "diagonal": [*FREE, "--posterior", "diagonal", "--set", "dtype=float64", "--weighting", "none"]
    + ["--kernel", "se", "--set", "ard=false"],
    "weight space": ["train", *SMALL, "--set", "optimiser=adagrad", "--set", "label_sample=2"]
    + ["--label-weights", "--set", "regression_points=0"],
    "calibrated": ["train", *SMALL, "--no-label-weights", "--set", "regression_points=0"],
    "topics": ["train", *TOPICS, "--inference", "em-cg"],
    "sampled": ["train", *TOPICS, "--inference", "gibbs", "--weighting", "none", "--set", "dtype=float64"],
    "classes": ["train", *CLASSES],
    "classes, as they are": ["train", *CLASSES, "--inference", "svi-adadelta", "--set", "standardise=false"],
    "named": ["train", *SMALL, "--no-label-weights", "--set", "regression_points=0"],
    "preprocessed": ["preprocess", "--inducing", "subspace", "-M", "6", "-R", "9"],
}

#: The model of text, which has names of labels and features.
NAMED = "named"

#: The model whose arrays are in the other byte order.
SWAPPED = "diagonal"


def make_originals(folder, names=tuple(KINDS)):
    """Make the data, a catalogue and models in a folder; return the names of the models.

    The training points are in train.txt, the same with names in text, those of two classes in one-label.txt, and new
    ones in test.txt.
    """
    write_dataset(folder / "train.txt", small_dataset())
    write_dataset(folder / "one-label.txt", small_dataset(K=1))
    write_dataset(folder / "test.txt", small_dataset(seed=7).rows(slice(0, 9)))
    _write_named(folder / "text")
    (folder / "catalogue.yaml").write_text("datasets: {}\n")
    with mock.patch.dict(os.environ, {"XMLGP_CATALOGUE": str(folder / "catalogue.yaml")}):
        for name in names:
            command, *options = KINDS[name]
            data = folder / ("one-label.txt" if "gpc" in options else "text" if name == NAMED else "train.txt")
            with calibrated(0.5) if name == "calibrated" else contextlib.nullcontext():
                result = run(command, "-q", "--no-cache", data, folder / name, *options)
            assert result.exit_code == 0, result.stderr
            _settle(folder / name, name == SWAPPED)
    return list(names)


def _write_named(folder):
    """Write the training points as those of a corpus."""
    folder.mkdir()
    write_dataset(folder / "train.txt", small_dataset())
    words = [f"wörd{place:02d}" for place in range(25)]
    description = WordCounts(Analysis(), words).description()
    (folder / "features.txt").write_text("".join(f"{word}\n" for word in words))
    (folder / "labels.txt").write_text("".join(f"label {place} 機\n" for place in range(7)))
    (folder / "vectorizer.json").write_text(json.dumps(description))


def _settle(model, swap):
    """Remove everything that differs from run to run; swap the byte order of arrays on request."""
    description = json.loads((model / DESCRIPTION).read_text())
    for epoch in description.get("history", []):
        epoch["seconds"] = 0.25
    for name, entry in description["arrays"].items():
        settled = f"arrays/{name}.00000000.npy"
        os.rename(model / entry["file"], model / settled)
        if swap:
            array = unpacked((model / settled).read_bytes())
            array = array.astype(array.dtype.newbyteorder())
            (model / settled).write_bytes(packed(array))
            entry["dtype"] = array.dtype.str
        entry["file"] = settled
    (model / DESCRIPTION).write_text(json.dumps(description, indent=1))
    assert np.all([(model / entry["file"]).exists() for entry in description["arrays"].values()])
