"""Predicted points per second, compared with the peers in the same run and with the hardware limit.

    python -m benchmarks prediction [DATA ...] [--large-labels 200000] [--json FILE]

DATA is a folder with train.txt and test.txt. Five labels per point are predicted for its test points in memory; loading
is not timed, and the best of several repeats counts. xmlgp's model is trained for one epoch, because prediction time
does not depend on the length of training. The last model has random parameters and generated points: P = 100, M = 500,
D = 100,000 and --large-labels labels (0 skips it). Its `limit` is the rate at which the products of utilities, 2KP
operations per point, would run at the GEMM rate of the same run. Peak memory excludes the imports. `command` is the
time of a complete `xmlgp predict`, from text to text.
"""

import tempfile
from pathlib import Path

import click
import numpy as np

from benchmarks import harness, peers
from xmlgp.api.trained_model import open_model
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.predictor import OUTPUTS

#: The random model: features, nonzero features per point, points, inducing inputs and factors.
D, FEATURES, N, M, P = 100_000, 70, 3000, 500, 100

#: Standard deviation of a label's utility over points, typical of trained models.
UTILITY_SPREAD = 2.0


def write_random_model(path, K):
    """Write a trained model with random parameters and K labels."""
    random = np.random.default_rng(0)

    def normal(deviation, *shape):
        return deviation * random.standard_normal(shape, np.float32)

    inducing = normal(D**-0.5, M, D)  # rows of unit length
    arrays = {
        "preprocess.idf": 1 + random.random(D, np.float32),
        "preprocess.inducing": inducing,
        "parameters.inducing": inducing,
        "parameters.kernel.linear.log_variance": np.zeros((), np.float32),
        "parameters.kernel.linear.log_relevance": np.zeros(D, np.float32),
        # A point's covariance with an inducing input is about D^-1/2, so latent functions get unit variance.
        "parameters.posterior.mean": normal((D / M) ** 0.5, M, P),
        "parameters.posterior.log_diagonal": np.zeros(M, np.float32),
        "parameters.loadings": normal(UTILITY_SPREAD * P**-0.5, K, P),
        # Log odds of frequencies with a power law.
        "parameters.bias": -np.log(random.permutation(K) + 10).astype(np.float32),
    }
    ModelFolder.write(
        path,
        settings=MLGPFSettings(inducing="free", inducing_count=M, factors=P),
        stage="trained",
        data={"N": N, "D": D, "K": K, "fingerprint": ""},
        arrays=arrays,
        history=[{"epoch": 1, "bound": 0.0, "seconds": 0.0}],
    )


def throughput(model, file, repeats, outputs=OUTPUTS):
    """Return points per second of a model folder in this process for each output, with peak memory and GEMM rate.

    None is the default output of the model.
    """
    memory = harness.PeakMemory()
    features = read_dataset(file).features
    predictor = open_model(ModelFolder(model)).predictor

    def predict(output):
        for _ in predictor.top(features, peers.TOP, output or predictor.default_output):
            pass

    rates = {output: features.N / harness.best_seconds(lambda o=output: predict(o), repeats) for output in outputs}
    return rates | {"peak_mb": memory.megabytes(), "gemm_gflops": harness.gemm_rate() / 1e9}


def measure(model, file, repeats, scores):
    """Return the throughput of a model folder and the seconds of the command."""
    result = harness.in_fresh_process(throughput, model, file, repeats)
    return result | {"command_s": harness.run_xmlgp("predict", "-q", model, file, "-o", scores).seconds}


def measure_data(data, folder, names, recipe, repeats):
    """Return the numbers of xmlgp and of the peers on a data set."""
    model = folder / data.name
    harness.xmlgp("train", "-q", data, model, "--recipe", recipe, "--epochs", 1)
    ours = measure(model, data / "test.txt", repeats, folder / "scores")
    theirs = peers.measure(data, names, repeats)
    return {"xmlgp": ours, "peers": {name: peer["rows"] / peer["predict_s"] for name, peer in theirs.items()}}


def measure_large(folder, K, repeats):
    """Return the numbers of a random model with K labels, and the limit."""
    write_random_model(folder / "large", K)
    write_dataset(folder / "large.txt", harness.generate(N, D, K, FEATURES))
    result = measure(folder / "large", folder / "large.txt", repeats, folder / "scores")
    return {"xmlgp": result, "limit": 1e9 * result["gemm_gflops"] / (2 * K * P)}


def report(table, name, result):
    """Print the rows of a model."""
    ours = result["xmlgp"]
    for output in OUTPUTS:
        command = ours["command_s"] if output == "probability" else ""
        ratios = {peer: ours[output] / rate for peer, rate in result.get("peers", {}).items()}
        table.row(name, f"xmlgp {output}", ours[output], ratios.get("napkinxc", ""), ours["peak_mb"], command)
    others = dict(result.get("peers", {}))
    if "limit" in result:
        others[f"limit at {ours['gemm_gflops']:.0f} GFLOP/s"] = result["limit"]
    for other, rate in others.items():
        table.row(name, other, rate, "", "", "")


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument(required=False)
@click.option("--recipe", default="default", show_default=True)
@click.option("--large-labels", default=200_000, show_default=True, help="K of the random model.")
@click.option("--repeats", default=5, show_default=True)
@harness.peers_option()
@harness.json_option
def main(folders, recipe, large_labels, repeats, names, as_json):
    results = {}
    table = harness.Table("data", "", "points/s", "× napkinxc", "peak MB", "command s")
    with tempfile.TemporaryDirectory() as folder:
        for data in folders:
            results[data.name] = measure_data(data, Path(folder), names, recipe, repeats)
            report(table, data.name, results[data.name])
        if large_labels:
            name = f"K={large_labels}"
            results[name] = measure_large(Path(folder), large_labels, repeats)
            report(table, name, results[name])
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
