"""Make the golden models with the xmlgp that is imported; see README.md."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

#: The training options of the default in weight space.
IN_WEIGHT_SPACE = [
    "--model", "mlgpf", "--inducing", "features", "--label-weights", "-P", "3", "--epochs", "8", "--batch-size", "8",
]  # fmt: skip

#: The training options of each golden model. Together the models have every array of the format.
MODELS = {
    "mlgpf": [
        "--model", "mlgpf", "--inducing", "subspace", "--weighting", "idf", "--kernel", "se+linear",
        "--ard", "--posterior", "diagonal", "-P", "3", "-M", "5", "-R", "4", "--epochs", "8",
        "--batch-size", "8",
    ],
    "full-posterior": [
        "--model", "mlgpf", "--inducing", "free", "--weighting", "unit", "--posterior", "cholesky",
        "--no-label-weights", "-P", "3", "-M", "5", "--epochs", "8", "--batch-size", "8",
    ],
    "weight-space": [
        "--model", "mlgpf", "--inducing", "features", "--optimiser", "adagrad", "--label-sample", "2",
        "--label-weights", "-P", "3", "--epochs", "8", "--batch-size", "8",
    ],
    "neighbours": IN_WEIGHT_SPACE,
    "dense": IN_WEIGHT_SPACE,
    "calibrated": [
        "--model", "mlgpf", "--inducing", "free", "--kernel", "linear", "--no-label-weights", "-P", "2", "-M", "4",
        "--epochs", "4", "--batch-size", "8",
    ],
    "bmlpl": ["--model", "bmlpl", "--topics", "3", "--iterations", "30"],
    "gpc": ["--model", "gpc", "-M", "5", "--iterations", "8"],
}  # fmt: skip

#: Models of an earlier version, with arrays that their options no longer produce: label weights beside inducing inputs,
#: a calibration on few points. They are only made again if they are named.
EARLIER = {"mlgpf", "weight-space", "calibrated"}

#: The model with dense features beside words.
DENSE = "dense"


def data(model, part):
    """Return the file with the points that a golden model is trained on ("train") or scores ("test")."""
    return HERE / f"{part}{'.svm' if model == 'gpc' else '.txt'}"


def dense_options(model, part):
    """Return the options for the dense features of these points."""
    return ["--dense", HERE / f"{part}.npy"] if model == DENSE else []


def xmlgp(*arguments):
    """Run a command in this folder, so that Python imports the installed xmlgp or the one in PYTHONPATH."""
    subprocess.run([sys.executable, "-m", "xmlgp", *map(str, arguments)], check=True, cwd=HERE)


def make(models):
    """Train the models and write their predictions beside them."""
    for model in models or [name for name in MODELS if name not in EARLIER]:
        path = HERE / model
        shutil.rmtree(path, ignore_errors=True)
        options = [*MODELS[model], "--seed", "3", "-q", *dense_options(model, "train")]
        xmlgp("train", data(model, "train"), path, *options)
        for output in ("utility", "probability"):
            out = ["--output", output, "-o", path / f"{output}.txt"]
            options = ["-k", "all", "--with-std", "-q", *dense_options(model, "test")]
            xmlgp("predict", path, data(model, "test"), *options, *out)


if __name__ == "__main__":
    make(sys.argv[1:])
