"""Growth of peak memory and of the time of an epoch with N, D, K, M, P and R.

    python benchmarks/scaling.py [--vary NAME ...] [--scale 1] [--json FILE]

Each number varies alone over a factor of eight around a base case on generated data, each case in a fresh process.
Memory is the peak without the imports, including the data; time is the median of several epochs. The line `power` has
the exponent of the fitted growth, by least squares of logarithms; a constant part makes it smaller. Inducing inputs are
free except where R varies; K varies with all negatives and with 50 sampled ones. All cases take about five minutes;
--scale multiplies N.
"""

import dataclasses

import click
import harness

from xmlgp.mlgpf.settings import MLGPFSettings

EPOCHS = 4


@dataclasses.dataclass(frozen=True)
class Case:
    """The shape of a data set and of a model; inducing inputs are free if R is None."""

    N: int = 4000
    D: int = 2000
    K: int = 2000
    M: int = 200
    P: int = 50
    R: int | None = None
    negatives: int | None = None

    @property
    def settings(self):
        return MLGPFSettings(
            inducing="subspace" if self.R else "free",
            basis_size=self.R or MLGPFSettings.basis_size,
            inducing_count=self.M,
            inducing_start="rows",
            factors=self.P,
            negatives=self.negatives,
            epochs=EPOCHS,
        )


BASE = Case()

#: What varies: the field, its values, and other differences from the base case.
VARIED = {
    "N": ("N", (2000, 4000, 8000, 16000), {}),
    "D": ("D", (1000, 2000, 4000, 8000), {}),
    "K": ("K", (1000, 2000, 4000, 8000), {}),
    "K, 50 negatives": ("K", (1000, 2000, 4000, 8000), {"negatives": 50}),
    "M": ("M", (100, 200, 400, 800), {}),
    "P": ("P", (25, 50, 100, 200), {}),
    "R": ("R", (100, 200, 400, 800), {}),
}


def measure(case):
    """Return the peak memory of a training run in this process, in megabytes, and seconds per epoch."""
    harness.warm_up(case.settings)
    memory = harness.PeakMemory()
    dataset = harness.generate(case.N, case.D, case.K)
    memory.reset()
    _, history = harness.fit(dataset, case.settings)
    return {"peak_mb": memory.megabytes(), "epoch_s": harness.epoch_seconds(history)}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--vary", "names", multiple=True, type=click.Choice(list(VARIED)), default=list(VARIED))
@click.option("--scale", default=1.0, show_default=True)
@harness.json_option
def main(names, scale, as_json):
    results = {}
    table = harness.Table({"varied": 18, "value": 8, "peak MB": 12, "epoch s": 12})
    for name in names:
        field, values, others = VARIED[name]
        rows = []
        for value in values:
            case = dataclasses.replace(BASE, **others, **{field: value})
            case = dataclasses.replace(case, N=round(case.N * scale))
            rows.append(harness.in_fresh_process(measure, case) | {field: getattr(case, field)})
            table.row(name, rows[-1][field], rows[-1]["peak_mb"], rows[-1]["epoch_s"])
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        growth = {key: harness.exponent(columns[field], columns[key]) for key in ("peak_mb", "epoch_s")}
        table.row(name, "power", *(f"{power:.2f}" for power in growth.values()))
        results[name] = {"cases": rows, "growth": growth}
    harness.write_json(as_json, {"base": dataclasses.asdict(BASE)} | results)


if __name__ == "__main__":
    main()
