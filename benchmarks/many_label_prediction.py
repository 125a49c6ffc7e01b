"""Predicted points per second of models with many labels, beside omikuji and PECOS in the same run.

    python benchmarks/many_label_prediction.py DATA MODEL [MODEL ...] [--peers NAME,...] [--peers-python PATH]
        [--points 10000] [--repeats 3] [--json FILE]

DATA is a folder with train.txt and test.txt. Each MODEL is a trained model with the features of DATA, such as one of
`xmlgp train` or `benchmarks/repeated_labels.py`, and finds five labels of the first --points test points, in memory.
Loading, and what a model arranges for its first points, are not timed; the best of the repeats counts. A model with an
index of labels also finds them by `--approximate`. `command` is the time of `xmlgp predict -k 5` of all test points,
from text to text, and the peak memory is that of this command.

The peers train on DATA with their defaults and the features that xmlgp's default weighting gives. All use all cores.
"""

import tempfile
from pathlib import Path

import click
import harness
import many_labels
import peers

from xmlgp.data.repository_format import read_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.predictor import OUTPUTS, RECALL
from xmlgp.runs.trained_model import open_predictor

#: Output that is also measured with an index of labels.
APPROXIMATED = "probability"


def rates(model, file, count, repeats):
    """Return K and the points per second of a model folder in this process for each output, and with its index."""
    features = read_dataset(file, cache=False).features[:count]
    exact = open_predictor(ModelFolder(model))
    ways = {output: (exact, output) for output in OUTPUTS}
    searching = exact.searching(RECALL)
    if searching is not None:
        ways["approximate"] = searching, APPROXIMATED

    def rate(predictor, output):
        def predict(points):
            for _ in predictor.top(points, peers.TOP, output):
                pass

        predict(features[:1])
        return features.N / harness.best_seconds(lambda: predict(features), repeats)

    return {"K": exact.label_count} | {name: rate(*way) for name, way in ways.items()}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--points", "count", default=10_000, show_default=True, help="Points that models score in memory.")
@click.option("--repeats", default=3, show_default=True)
@harness.peers_option(default=["omikuji", "pecos"])
@harness.peers_python_option
@harness.json_option
def main(data, models, count, repeats, names, peers_python, as_json):
    results = {}
    table = harness.Table("", "K", "points/s", "command s", "peak MB")
    file = data / "test.txt"
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            result = harness.in_fresh_process(rates, model, file, count, repeats)
            usage = harness.run_xmlgp("predict", "-q", model, file, "-k", peers.TOP, "-o", Path(folder, "scores"))
            results[model.name] = result | {"command": usage._asdict()}
            for way in (name for name in result if name != "K"):
                default = way == "probability"
                command = (usage.seconds, usage.peak_mb) if default else ("", "")
                table.row(f"{model.name}, {way}", result["K"], result[way], *command)
        if names:
            weighted = Path(folder, "weighted")
            harness.in_fresh_process(many_labels.write_weighted, data, weighted)
            measured = peers.measure(weighted, names, peers_python, repeats)
            results["peers"] = {name: peer["rows"] / peer["predict_s"] for name, peer in measured.items()}
            for name, rate in results["peers"].items():
                table.row(f"{name}, {data.name}", "", rate, "", "")
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
