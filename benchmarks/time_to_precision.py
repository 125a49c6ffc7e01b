"""Time of training until the precision of the peers is reached, with all trained in the same run.

    python -m benchmarks time_to_precision DATA [DATA ...] [--recipe NAME ...]
        [--epochs E ...] [--set NAME=VALUE ...] [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex. For each peer and each of P@1, P@3 and P@5 the table
has the peer's precision in percent, the seconds until xmlgp first reaches it on the test points, and the ratio to the
peer's seconds of training. The last column is for all three at once; a star marks the best peer. Seconds include
preprocessing and training from raw features in memory, for peers as well, but not scoring after each epoch, loading and
compiling. The schedule of the learning rate depends on the number of epochs: several --epochs are separate training
runs, and the earliest to reach a precision counts.
"""

import time

import click

from benchmarks import harness, peers

#: Largest difference of P@k between equal rankings, from the order of sums.
ROUNDING = 1e-9


def curve(train, test, settings):
    """Train, and return seconds since the start and precision after each epoch."""
    points, scoring = [], 0.0
    start = time.perf_counter()

    def score(epoch, model):
        nonlocal scoring
        seconds = time.perf_counter() - start - scoring
        points.append({"epoch": epoch, "seconds": seconds} | model.precision(test))
        scoring = time.perf_counter() - start - seconds

    harness.fit(train, settings, score)
    return points


def reached(runs, targets):
    """Return the least seconds at which a training run reaches all targets, or None."""
    seconds = [
        point["seconds"]
        for run in runs
        for point in run["curve"]
        if all(point[name] >= target - ROUNDING for name, target in targets.items())
    ]
    return min(seconds, default=None)


def compare(peer, runs):
    """Return xmlgp's seconds and their ratio to the peer's, for each measure and for all together."""
    goals = {name: {name: peer[name]} for name in peers.MEASURES}
    goals["all"] = {name: peer[name] for name in peers.MEASURES}
    times = {name: reached(runs, targets) for name, targets in goals.items()}
    return {name: {"seconds": s, "ratio": s and s / peer["train_s"]} for name, s in times.items()}


def cell(result, precision=None, best=False):
    """Format a comparison."""
    text = "" if precision is None else f"{precision:.2f}{'*' if best else ''} "
    if result["seconds"] is None:
        return text + "not reached"
    return text + f"{result['seconds']:.2f} s ×{result['ratio']:.2f}"


def report(measured, runs):
    """Print the table of a data set and return its comparisons."""
    table = harness.Table("peer", "train s", *peers.MEASURES, "all three")
    best = {name: max(measured, key=lambda peer: measured[peer][name]) for name in peers.MEASURES if measured}
    comparisons = {name: compare(peer, runs) for name, peer in measured.items()}
    for name, peer in measured.items():
        cells = [cell(comparisons[name][m], peer[m], best[m] == name) for m in peers.MEASURES]
        table.row(name, peer["train_s"], *cells, cell(comparisons[name]["all"]))
    return {"best": best, "xmlgp": comparisons}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@harness.recipes_option
@harness.set_option
@click.option(
    "--epochs",
    multiple=True,
    type=click.IntRange(1),
    help="Epochs, over the recipe; several are separate training runs.",
)
@harness.peers_option()
@harness.json_option
def main(folders, recipes, chosen, epochs, names, as_json):
    results = {}
    for data in folders:
        measured = peers.measure(data, names)
        train, test = harness.read_folder(data)
        runs = []
        for recipe in recipes:
            for length in epochs or [None]:
                settings = harness.resolve_settings(recipe, train, chosen | ({"epochs": length} if length else {}))
                harness.warm_up(settings)
                runs.append({"recipe": recipe, "epochs": settings.epochs, "curve": curve(train, test, settings)})
                last = runs[-1]["curve"][-1]
                reaches = "/".join(f"{last[name]:.2f}" for name in peers.MEASURES)
                print(f"{data.name}, {recipe}, {settings.epochs} epochs: {reaches} after {last['seconds']:.2f} s")
        results[data.name] = {"peers": measured, "runs": runs} | report(measured, runs)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
