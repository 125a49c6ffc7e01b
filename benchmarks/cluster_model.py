"""A model of the time of training in weight space on many machines, from what was measured on one.

    python benchmarks/cluster_model.py --memory FILE ... --steps FILE [--cores 16] [--network 10] [--storage 10]
        [--shape amazoncat ...] [--set NAME=VALUE ...] [--json FILE]

The files are those of `benchmarks/cluster.py memory` and of `benchmarks/cluster.py steps --inducing features`, best of
data in the shape of AmazonCat. They give the constants: seconds of the command, which no worker can take from it, and
processor seconds of the workers, each by the unit of work of a stage. With two files of `memory`, on data of different
sizes, seconds that do not grow with the work are told from those that do. `--set` replaces constants.

A stage takes

    undivided seconds + divided seconds / (machines × cores) + bytes / rate,

where the divided part is longer if there are fewer blocks than machines, or if they do not come out even. Bytes of the
steps pass through the connection of the client, at the rate of the network (Gb/s). Files pass through the connection of
the storage; a machine reads X and the latent functions from it once, and keeps them in memory. A core of the machines
is like one of those that were measured on, and cores of one machine divide its part evenly. Everything is added up,
though some of it overlaps, so the times are rather too long. The column `local` is one process on one machine, which
sends nothing and whose files stay in its memory.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click
import generate
import harness  # before NumPy

from xmlgp.data.byte_ranges import RANGE
from xmlgp.gp.label_weights import WEIGHTS_LIMIT
from xmlgp.mlgpf.held_out import CALIBRATION_MOST, CALIBRATION_SHARE
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.sweep import LABEL_BLOCK, POINT_BLOCK, sampled_points, shortlist_length
from xmlgp.mlgpf.weight_space_ascent import (
    LAST_ROUNDS,
    LIST_COSTS,
    PAIR_COST,
    ROUNDS,
    UPDATE_COST,
    sweep_count,
)
from xmlgp.preprocess.row_shards import SHARD

MACHINES = (1, 2, 4, 8, 16, 32, 64)

SHAPES = {
    "amazoncat": generate.SHAPES["amazoncat"],
    "amazon-3m": generate.Shape(N=1_717_899, D=337_067, K=2_812_281, features=49, labels=36, own=0.3),
}

#: Bytes of a stored element of X, of a label weight in files (m, log v and the number of its feature), and of a number.
ELEMENT, WEIGHT, NUMBER = 8, 12, 4

#: Stages of a run that are one here, because all of them go over the elements of X.
JOINED = {"weighting": "preprocessing", "starting values": "preprocessing", "pairs": "files of a sweep"}

#: What becomes slower with more machines, and what does not become faster.
PARTS = ("divided", "undivided", "network", "storage")


class Work(NamedTuple):
    """A stage: units of work that the command does and that workers do, its blocks, and bytes of files.

    Attributes
    ----------
    undivided, divided : float
    blocks : float
        Parts that the divided work has.
    shared_bytes : float
        Bytes that pass through the storage, however many machines there are.
    machine_bytes : float
        Bytes that each machine reads.
    threaded : bool
        Whether the command divides its work among its cores.
    """

    undivided: float
    divided: float = 0.0
    blocks: float = math.inf
    shared_bytes: float = 0.0
    machine_bytes: float = 0.0
    threaded: bool = False


@dataclass(frozen=True)
class Training:
    """What a training in weight space consists of, by the code that it models.

    Attributes
    ----------
    shape : generate.Shape
    epochs : int
    settings : MLGPFSettings
    text_bytes : float
        Of an element of X in the file.
    weights : int, optional
        Label weights; by default as many as there may be.
    """

    shape: generate.Shape
    epochs: int
    settings: MLGPFSettings
    text_bytes: float
    weights: int | None = None

    @property
    def step_count(self):
        return self.epochs * math.ceil(self.shape.N / self.settings.batch_size)

    @property
    def step_labels(self):
        """Labels of a step, as `WeightSpaceAscent.cost` counts them."""
        B = self.settings.batch_size
        return min(self.shape.K, self.settings.label_sample + B * self.shape.labels)

    @property
    def step_pairs(self):
        """Divided work of a step."""
        return self.settings.batch_size * self.step_labels * (3 * self.settings.factor_count + PAIR_COST)

    @property
    def step_rows(self):
        """Undivided work of a step: rows of T and Φ that it changes."""
        return self.settings.batch_size * self.shape.features + self.step_labels

    def step_bytes(self, parts):
        """Bytes of the messages of a step, to all workers that it is divided among, and back."""
        P = self.settings.factor_count
        numbers = parts * self.settings.batch_size * (P + 1) + self.step_labels * (P + 1)
        return 2 * NUMBER * numbers if parts else 0

    def sweeps(self):
        """Return points that are listed, the cost of that, and updates of ξ of each sweep."""
        N, K = self.shape.N, self.shape.K
        count = sweep_count(self.settings, N, self.shape.D, K)
        found = [(N, LIST_COSTS[min(sweep, 1)], ROUNDS) for sweep in range(count)]
        held = round(min(CALIBRATION_SHARE * N, CALIBRATION_MOST)) if self.settings.calibration else 0
        return [*found, (held, LIST_COSTS[min(count, 1)], LAST_ROUNDS)] if held else found

    def stages(self):
        """Return the `Work` of all stages but the steps, by name."""
        s, P = self.shape, self.settings.factor_count
        elements, labels, S = s.N * s.features, s.N * s.labels, shortlist_length(s.N, s.K)
        X, latent, text = ELEMENT * elements, NUMBER * s.N * P, self.text_bytes * elements
        weights = min(self.weights or WEIGHTS_LIMIT, WEIGHTS_LIMIT)
        sweeps = self.sweeps()
        held = sweeps[-1][0] if len(sweeps) > 1 else 0
        listed = sum(points for points, _, _ in sweeps)
        pairs = labels + s.N * S + s.K * sampled_points(s.K)
        # In the first sweep utilities have no label weights.
        with_weights = max(0, len(sweeps) - 1)
        return {
            # Digest and ranges of the text; arrays of a range, which the command writes to one file.
            "reading": Work(elements, elements, max(1, text / RANGE), 2 * text + 3 * X),
            # Frequencies and sizes; weighted elements of shards, which become one file.
            "preprocessing": Work(elements, elements, max(1, elements / SHARD), 4.5 * X),
            "initial label weights": Work(labels * s.features),
            "latent functions": Work(s.N * P, elements * P, math.inf, 3 * latent),
            "files of a sweep": Work(
                len(sweeps) * (weights + labels + s.N * S),
                shared_bytes=len(sweeps) * (WEIGHT * weights + NUMBER * (labels + s.N * S)),
            ),
            "shortlists": Work(
                listed * S,
                sum(cost * points * s.K * (P + PAIR_COST) for points, cost, _ in sweeps),
                s.N / POINT_BLOCK,
                X + latent + 2 * NUMBER * listed * S,
                with_weights * WEIGHT * weights + NUMBER * s.K * P,
            ),
            # Pairs of a block of labels are points from everywhere.
            "label weights": Work(
                len(sweeps) * weights,
                sum(rounds / ROUNDS * UPDATE_COST * pairs * ELEMENT * s.features for _, _, rounds in sweeps),
                s.K / LABEL_BLOCK,
                len(sweeps) * (3 * 2 * NUMBER * weights + NUMBER * pairs),
                X + latent,
            ),
            "calibration": Work(held * s.K, threaded=True),
            "writing": Work((s.D + s.K) * P + weights),
        }


# ---- Constants


def constants_of(memories, steps):
    """Return the constants, by name, that were measured: seconds by unit of work, on one core, and fixed seconds.

    Parameters
    ----------
    memories : list of dict
        What `benchmarks/cluster.py memory` has written, for data of different sizes.
    steps : dict
        What `benchmarks/cluster.py steps` has written.
    """
    memories = sorted(memories, key=lambda memory: memory["sizes"]["N"])
    largest = training_of_memory(memories[-1])
    constants = {"text_bytes": largest.text_bytes}
    measured = [(training_of_memory(memory).stages(), seconds_by_stage(memory)) for memory in memories]
    for name in largest.stages():
        for part in ("undivided", "divided"):
            points = [(getattr(work[name], part), seconds.get((name, part), 0.0)) for work, seconds in measured]
            if points[-1][0]:
                slope, fixed = line(points)
                constants[f"{name}, {part}"] = slope
                if fixed and part == "undivided":
                    constants[f"{name}, fixed"] = fixed
    return constants | step_constants(steps)


def seconds_by_stage(memory):
    """Return the seconds of each stage and part."""
    run = next(run for run in memory["runs"] if run["workers"])
    found, stages = {}, training_of_memory(memory).stages()
    for name, stage in run["stages"].items():
        # The sweeps together.
        name, _, _ = name.partition(", ")
        name = JOINED.get(name, name)
        threaded = name in stages and stages[name].threaded
        # Otherwise more than one thread of the command may be busy beside the work, such as those of Dask.
        own = stage["command_s"] if threaded else min(stage["seconds"], stage["command_s"])
        for part, seconds in ("undivided", own), ("divided", stage["workers_s"]):
            found[name, part] = found.get((name, part), 0.0) + seconds
    return found


def line(points):
    """Return slope and height of the line through the first and the last of some points, neither below zero."""
    (first, low), (last, high) = points[0], points[-1]
    slope = max(0.0, (high - low) / (last - first)) if last > first else 0.0
    fixed = low - slope * first
    if last > first and slope and fixed > 0:
        return slope, fixed
    return high / last, 0.0


def training_of_memory(memory):
    """Return the `Training` of what `benchmarks/cluster.py memory` has measured."""
    shape = generate.Shape(**memory["sizes"])
    run = next(run for run in memory["runs"] if run["workers"])
    elements = shape.N * shape.features
    return Training(shape, 1, weight_space_settings(), memory["text_bytes"] / elements, run["label_weights"])


def step_constants(steps):
    """Return the constants of a step: of its undivided and divided parts, and of a message to and from a worker."""
    sizes = steps["sizes"]
    shape = generate.Shape(*(sizes[name] for name in ("N", "D", "K", "features", "labels")), own=0)
    runs = [run for run in steps["runs"] if run["inducing"] == "features" and run["workers"]]
    fewest, most = (chosen(runs, key=lambda run: run["workers"]) for chosen in (min, max))
    settings = weight_space_settings(batch_size=fewest["B"], factors=fewest["P"], label_sample=fewest["label_sample"])
    training = Training(shape, 1, settings, 0.0)
    cores = steps["cores"] / fewest["workers"]
    return {
        "steps, undivided": (fewest["step_s"] - fewest["call_s"]) / training.step_rows,
        "steps, divided": fewest["compute_s"] * cores * fewest["workers"] / training.step_pairs,
        "steps, message": (most["call_s"] - most["compute_s"]) / most["workers"],
    }


def weight_space_settings(**options):
    """Return the settings of training in weight space."""
    return MLGPFSettings(inducing="features", **options)


# ---- Times


def times(training, constants, machines, cores, network, storage):
    """Return the seconds of each stage by part (`PARTS`).

    Parameters
    ----------
    training : Training
    constants : mapping of str to float
    machines, cores : int
        Cores of each machine.
    network, storage : float
        Gb/s of the connections of the client and of the storage.
    """
    found = {}
    for name, work in training.stages().items():
        found[name] = {
            "divided": uneven(work.blocks, machines) * work.divided * constants.get(f"{name}, divided", 0.0) / cores,
            "undivided": constants.get(f"{name}, fixed", 0.0)
            + work.undivided * constants.get(f"{name}, undivided", 0.0) / (cores if work.threaded else 1),
            "network": 0.0,
            "storage": seconds_of(work.shared_bytes + machines * work.machine_bytes, storage),
        }
    # Divided among as many machines as make them fastest; by the client alone, if it is that.
    steps = min(
        (steps_of(training, constants, parts, cores, network) for parts in range(machines + 1)),
        key=lambda seconds: sum(seconds.values()),
    )
    # In the order of training.
    names = list(found)
    return {name: steps if name == "steps" else found[name] for name in [*names[:2], "steps", *names[2:]]}


def steps_of(training, constants, parts, cores, network):
    """Return the seconds of all steps by part, if each is divided among so many machines; 0 for the client alone."""
    count = training.step_count
    messages = parts * constants["steps, message"] + seconds_of(training.step_bytes(parts), network)
    return {
        "divided": count * training.step_pairs * constants["steps, divided"] / (max(1, parts) * cores),
        "undivided": count * training.step_rows * constants["steps, undivided"],
        "network": count * messages,
        "storage": 0.0,
    }


def local(found):
    """Return the seconds of each stage by part on one process, from those on one machine of a cluster."""
    return {name: parts | {"network": 0.0, "storage": 0.0} for name, parts in found.items()}


def uneven(blocks, machines):
    """Return the share of the divided work that the machine with the most blocks has."""
    if math.isinf(blocks):
        return 1 / machines
    blocks = math.ceil(blocks)
    return math.ceil(blocks / machines) / blocks


def seconds_of(count, rate):
    """Return the seconds of bytes at a rate in Gb/s."""
    return count * 8 / (rate * 1e9)


def largest_rest(found):
    """Return the stage and the part, of those that are not divided, that takes the most seconds."""
    rest = {(name, part): parts[part] for name, parts in found.items() for part in PARTS if part != "divided"}
    return max(rest, key=rest.get)


# ---- Tables


def report(name, training, by_machines, cores):
    """Print the seconds of each stage on each number of machines, and what they consist of."""
    s = training.shape
    print(f"{name}, N={s.N:,}, D={s.D:,}, K={s.K:,}, {training.step_count:,} steps, machines of {cores} cores:\n")
    columns = ["seconds", *map(str, by_machines)]
    stages = next(iter(by_machines.values()))
    rows = [[stage, *(cell(sum(found[stage].values())) for found in by_machines.values())] for stage in stages]
    totals = {machines: total(found) for machines, found in by_machines.items()}
    rows.append(["all", *map(cell, totals.values())])
    first = next(iter(totals.values()))
    rows.append(["times faster", *(f"{first / seconds:.1f}" for seconds in totals.values())])
    harness.markdown_table(columns, rows)
    rows = [[part, *(cell(total(found, part)) for found in by_machines.values())] for part in PARTS]
    steps = [[f"steps, {part}", *(cell(found["steps"][part]) for found in by_machines.values())] for part in PARTS[:3]]
    rest = [", ".join(largest_rest(found)) for found in by_machines.values()]
    harness.markdown_table(columns, [*rows, *steps, ["largest of the rest", *rest]])
    limited = [machines for machines in MACHINES if 2 * total(by_machines[machines], "divided") < totals[machines]]
    if limited:
        limit = ", ".join(largest_rest(by_machines[limited[0]]))
        more = f"machine{'s' * (limited[0] > 1)} on"
        print(f"from {limited[0]} {more} less than half of the time is divided; the largest rest is {limit}\n")


def total(found, *parts):
    """Return the seconds of all stages, or of some of their parts."""
    return sum(stage[part] for stage in found.values() for part in parts or PARTS)


def cell(seconds):
    """Return seconds as a table has them."""
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"


def read(file):
    """Return what a measurement has written."""
    return json.loads(file.read_text(encoding="utf-8"))


_measured = {"required": True, "type": click.Path(exists=True, dir_okay=False, path_type=Path)}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--memory", "memories", multiple=True, help="JSON of `benchmarks/cluster.py memory`.", **_measured)
@click.option("--steps", help="JSON of `benchmarks/cluster.py steps`.", **_measured)
@click.option("--cores", type=click.IntRange(1), default=16, show_default=True, help="Cores of a machine.")
@click.option("--network", default=10.0, show_default=True, help="Gb/s of the client's connection.")
@click.option("--storage", default=10.0, show_default=True, help="Gb/s of the connection of the storage.")
@click.option("--shape", "names", multiple=True, type=click.Choice(list(SHAPES)), default=list(SHAPES))
@harness.set_option
@harness.json_option
def main(memories, steps, cores, network, storage, names, chosen, as_json):
    constants = constants_of([read(file) for file in memories], read(steps))
    if unknown := chosen.keys() - constants.keys():
        raise click.BadParameter(f"{unknown.pop()!r} is none of {', '.join(constants)}.")
    constants |= chosen
    harness.markdown_table(["constant", "value"], [[name, f"{value:.3g}"] for name, value in constants.items()])
    results = {"constants": constants, "cores": cores, "network": network, "storage": storage}
    for name in names:
        shape, settings = SHAPES[name], weight_space_settings()
        training = Training(shape, settings.epoch_count(shape.N), settings, constants["text_bytes"])
        by_machines = {m: times(training, constants, m, cores, network, storage) for m in MACHINES}
        by_machines = {"local": local(by_machines[1])} | by_machines
        report(name, training, by_machines, cores)
        results[name] = {"sizes": dataclasses.asdict(shape), "seconds": by_machines}
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
