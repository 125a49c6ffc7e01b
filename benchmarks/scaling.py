"""Growth of peak memory and of the times of an epoch and of training with N, D, K, M, P and R.

    python benchmarks/scaling.py [--vary NAME ...] [--base N D K] [--recipe NAME] [--set NAME=VALUE ...] [--json FILE]

Each number varies alone over a factor of eight around a base case on generated data, each case in a fresh process.
Memory is the peak without the imports, including the data; the time of an epoch is the median of several, the time of
training includes preprocessing. The last line of each number has the exponents of the fitted growth, by least squares
of logarithms; a constant part makes them smaller. Inducing inputs are free except where R varies; K varies with all
negatives and with 50 sampled ones. All cases take about five minutes.

With --recipe the settings are those of the recipe, with four epochs unless --set has another number, and N, D and K
vary by default.
"""

import time
from typing import NamedTuple

import click
import harness

from xmlgp.data.catalogue import load_catalogue
from xmlgp.models import resolve

#: Settings without a recipe.
SETTINGS = {"inducing": "free", "inducing_count": 200, "inducing_start": "rows", "factors": 50}

#: Epochs, unless other settings say otherwise.
EPOCHS = 4


class Varied(NamedTuple):
    """What varies: N, D, K or a setting; its values, unless they are multiples of the base; and other settings."""

    name: str
    values: tuple | None = None
    others: dict = {}


VARIED = {
    "N": Varied("N"),
    "D": Varied("D"),
    "K": Varied("K"),
    "K, 50 negatives": Varied("K", None, {"negatives": 50}),
    "M": Varied("inducing_count", (100, 200, 400, 800)),
    "P": Varied("factors", (25, 50, 100, 200)),
    "R": Varied("basis_size", (100, 200, 400, 800), {"inducing": "subspace"}),
}

SIZES = ("N", "D", "K")

#: N, D and K vary over these multiples of their base.
MULTIPLES = (0.5, 1, 2, 4)


def cases(varied, base, chosen):
    """Yield the value, the mapping of N, D and K, and the settings of each case."""
    name = varied.name
    for value in varied.values or [max(1, round(multiple * base[name])) for multiple in MULTIPLES]:
        sizes = base | ({name: value} if name in SIZES else {})
        yield value, sizes, chosen | varied.others | ({} if name in SIZES else {name: value})


def measure(recipe, sizes, chosen):
    """Return the peak memory of a training run in this process, in megabytes, and seconds per epoch and of training."""
    settings = resolve(load_catalogue(), recipe, tuple(sizes.values()), chosen)[0]
    harness.warm_up(settings)
    memory = harness.PeakMemory()
    dataset = harness.generate(**sizes)
    memory.reset()
    start = time.perf_counter()
    _, history = harness.fit(dataset, settings)
    seconds = time.perf_counter() - start
    return {"peak_mb": memory.megabytes(), "epoch_s": harness.epoch_seconds(history), "train_s": seconds}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--vary", "names", multiple=True, type=click.Choice(list(VARIED)), help="What varies.  [default: all]")
@click.option("--base", nargs=3, type=click.IntRange(1), default=(4000, 2000, 2000), show_default=True, metavar="N D K")
@click.option("--recipe", help="Recipe of xmlgp, instead of settings of this benchmark.")
@harness.set_option
@harness.json_option
def main(names, base, recipe, chosen, as_json):
    chosen = {"epochs": EPOCHS} | ({} if recipe else SETTINGS) | chosen
    base = dict(zip(SIZES, base, strict=True))
    results = {"base": base, "recipe": recipe, "settings": chosen}
    table = harness.Table("varied", "value", "peak MB", "epoch s", "train s")
    for name in names or (SIZES if recipe else VARIED):
        rows = []
        for value, sizes, settings in cases(VARIED[name], base, chosen):
            measured = harness.in_fresh_process(measure, recipe, sizes, settings)
            rows.append({"value": value} | measured)
            table.row(name, value, *measured.values())
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        values = columns.pop("value")
        growth = {key: harness.exponent(values, column) for key, column in columns.items()}
        table.row(name, "power", *(f"{power:.2f}" for power in growth.values()))
        results[name] = {"cases": rows, "growth": growth}
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
