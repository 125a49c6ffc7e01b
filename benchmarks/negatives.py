"""Sampled negative labels: time and memory against K, and precision.

    python benchmarks/negatives.py [DATA ...] [--sampled 50] [--labels K ...] [--json FILE]
    python benchmarks/negatives.py data/delicious --share 0.01 --seeds 3

The first table has seconds per step and peak memory with sampled negatives on generated data with an increasing number
of labels, each case in a fresh process. Φ and b with the optimiser's two moments take memory in proportion to K,
however few labels each step samples; their size is next to the peak, which excludes the imports and includes the data.
Then, for each DATA, a folder with train.txt and test.txt, a table compares the precision on the test points after
training with a share of the negatives, in minibatches of 2000 points for 80 epochs, and with all negatives and the
recipe's minibatches and epochs: mean and standard deviation over the seeds. Inducing inputs are free, because the
negatives of weight space are others; --set inducing=subspace is possible.
"""

import click
import harness
import numpy as np
from peers import MEASURES

from xmlgp.mlgpf.settings import MLGPFSettings

#: Points and features of the generated data, inducing inputs, factors and points per step.
N, D, M, P, B = 5000, 1000, 200, 100, 500

EPOCHS = 4

#: Sampled negatives have no effect in weight space.
INDUCING = {"inducing": "free"}

#: A larger minibatch averages the noise of few negatives; 80 such epochs take the time of 40 with all negatives.
WITH_SAMPLED = {"batch_size": 2000, "epochs": 80}

#: Arrays of the size of Φ and b: themselves and the two moments of Adam.
COPIES = 3


def measure(K, sampled):
    """Return the time and memory of a training run with K labels in this process."""
    settings = MLGPFSettings(
        inducing_count=M, inducing_start="rows", factors=P, batch_size=B, epochs=EPOCHS, negatives=sampled, **INDUCING
    )
    harness.warm_up(settings)
    memory = harness.PeakMemory()
    dataset = harness.generate(N, D, K)
    memory.reset()
    _, history = harness.fit(dataset, settings)
    step = harness.epoch_seconds(history) * B / N
    parameters = COPIES * K * (P + 1) * np.dtype(settings.dtype).itemsize / 1e6
    return {"K": K, "step_s": step, "peak_mb": memory.megabytes(), "parameters_mb": parameters}


def growth(label_counts, sampled):
    """Print and return the cost of training with sampled negatives for each number of labels."""
    print(f"{sampled} sampled negatives per point")
    table = harness.Table("K", "ms per step", "peak MB", "Φ, b, moments MB", "rest MB")
    cases = []
    for K in label_counts:
        case = harness.in_fresh_process(measure, K, sampled)
        rest = case["peak_mb"] - case["parameters_mb"]
        table.row(K, 1e3 * case["step_s"], case["peak_mb"], case["parameters_mb"], rest)
        cases.append(case)
    power = harness.exponent(label_counts, [case["step_s"] for case in cases]) if len(cases) > 1 else None
    if power is not None:
        print(f"the time of a step grows as K^{power:.2f}")
    return {"cases": cases, "step_growth": power}


def precision(train, test, settings):
    """Return P@1, P@3 and P@5 after training."""
    model, _ = harness.fit(train, settings)
    return list(model.precision(test).values())


def compare(data, recipe, chosen, share, seeds):
    """Print and return the precision with a share of the negatives and with all."""
    train, test = harness.read_folder(data)
    sampled = max(1, round(share * train.K))
    table = harness.Table(data.name, *MEASURES)
    means, results = {}, {}
    for name, count, usual in ((f"{sampled} negatives", sampled, WITH_SAMPLED), ("all negatives", None, {})):
        runs = []
        for seed in range(seeds):
            settings = harness.resolve_settings(
                recipe, train, INDUCING | usual | chosen | {"negatives": count, "seed": seed}
            )
            runs.append(precision(train, test, settings))
        means[name], deviations = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=min(1, seeds - 1))
        table.row(name, *(f"{m:.2f} ± {d:.2f}" for m, d in zip(means[name], deviations, strict=True)))
        results[name] = dict(zip(MEASURES, np.transpose(runs).tolist(), strict=True))
    few, all_ = means.values()
    table.row("difference", *(f"{difference:+.2f}" for difference in few - all_))
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument(required=False)
@click.option("--sampled", default=50, show_default=True, help="Negatives per point on generated data.")
@click.option(
    "--labels", "label_counts", type=int, multiple=True, default=[1000, 10_000, 100_000, 500_000], show_default=True
)
@click.option("--share", default=0.01, show_default=True, help="Share of the negatives that is sampled on DATA.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--recipe", default="default", show_default=True)
@harness.set_option
@harness.json_option
def main(folders, sampled, label_counts, share, seeds, recipe, chosen, as_json):
    results = {"growth": growth(label_counts, sampled)}
    for data in folders:
        results[data.name] = compare(data, recipe, chosen, share, seeds)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
