"""Make the golden models of the format that the installed xmlgp writes; README.md beside this tells when and how."""

import shutil
import subprocess
import sys
from pathlib import Path

from xmlgp.model_folder.folder import FORMAT_VERSION

HERE = Path(__file__).parent

#: By the name of a model of two classes: its data, in libsvm's format, dense or sparse.
CLASSES_DATA = {
    "classes": "dense",
    "classes-preprocessed": "dense",
    "classes-unscaled": "dense",
    "classes-sparse": "sparse",
}

TOPICS = ["--model", "bmlpl", "--topics", "3", "--batch-size", "8", "--seed", "3"]

CLASSES = ["--model", "gpc", "-M", "5", "--iterations", "8", "--seed", "3"]

SMALL = ["-P", "3", "-M", "5", "-R", "4", "--epochs", "8", "--batch-size", "8", "--seed", "3"]

#: By the name of a model: the first format that has its options, the subcommand and the options.
MODELS = {
    "default": (1, "train", ["--epochs", "8"]),
    "preprocessed": (1, "preprocess", ["--inducing", "subspace", "--weighting", "idf", "-M", "5", "-R", "4"]),
    "subspace-idf-sum": (
        1, "train", ["--inducing", "subspace", "--weighting", "idf", "--kernel", "se+linear", "--ard", *SMALL],
    ),
    "diagonal-se": (
        1, "train",
        ["--posterior", "diagonal", "--kernel", "se", "--no-ard", "--weighting", "unit", "--start", "random", *SMALL],
    ),
    "cholesky-float64": (
        1, "train",
        ["--posterior", "cholesky", "--weighting", "none", "--dtype", "float64", "--negatives", "2", *SMALL],
    ),
    "label-weights": (3, "train", ["--label-weights", "--validation", "0", *SMALL]),
    "topics": (4, "train", ["--model", "bmlpl", "--iterations", "30"]),
    "topics-em": (
        4, "train", [*TOPICS, "--inference", "em", "--learn-precision", "--weighting", "none", "--dtype", "float64"],
    ),
    "topics-online": (4, "train", [*TOPICS, "--inference", "online-em", "--weighting", "unit"]),
    "topics-sampled": (4, "train", [*TOPICS, "--inference", "gibbs", "--weighting", "idf", "--topics", "2"]),
    "held-out": (3, "train", ["--label-weights", "--validation", "0.5", *SMALL, "--epochs", "20"]),
    "closed-form": (5, "train", ["--expectations", "jj", *SMALL]),
    "classes": (5, "train", [*CLASSES, "--inference", "vi-taylor"]),
    "classes-preprocessed": (5, "preprocess", ["--model", "gpc", "-M", "5"]),
    "classes-unscaled": (5, "train", [*CLASSES, "--inference", "vi-jj-hybrid", "--no-standardise"]),
    "classes-sparse": (
        5, "train", [*CLASSES, "--inference", "svi-adadelta", "--batch-size", "8", "--learning-rate", "3"],
    ),
}  # fmt: skip


def data(name, part):
    """Return the file of the points that a model is trained on ("train"), or predicts ("test")."""
    return HERE / (f"{CLASSES_DATA[name]}-{part}.svm" if name in CLASSES_DATA else f"{part}.txt")


def xmlgp(*arguments):
    """Run the command, from where Python finds no other xmlgp than the one imported above."""
    subprocess.run([sys.executable, "-m", "xmlgp", *map(str, arguments)], check=True, cwd=HERE)


def make(names):
    """Make the models of some names, or all that the format can hold, with what this very code predicts."""
    for name in names or MODELS:
        first, command, options = MODELS[name]
        if first > FORMAT_VERSION:
            continue
        path = HERE / f"format-{FORMAT_VERSION}" / name
        shutil.rmtree(path, ignore_errors=True)
        xmlgp(command, data(name, "train"), path, "--no-cache", "-q", *options)
        if command == "train":
            for output in ("utility", "probability"):
                out = ["--output", output, "-o", path / f"{output}.txt"]
                xmlgp("predict", path, data(name, "test"), "-k", "all", "--with-std", "-q", *out)


if __name__ == "__main__":
    make(sys.argv[1:])
