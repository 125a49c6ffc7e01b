"""Factors trained in parts of the points that are merged in rounds, beside synchronous steps: precision and bytes.

    python benchmarks/partitioned.py DATA [--workers W ...] [--rounds R ...] [--merge NAME ...] [--own] [--sweeps]

DATA is a folder with train.txt and test.txt. The model is MLGPF in weight space. All runs in one process: no cluster is
needed to see what a way of training costs in precision. The points are divided at random into W parts. In a round each
part starts from the same parameters and makes its share of the usual stochastic steps, on minibatches of its own points
and with the bound of all points. Then the parts are merged. There are R rounds an epoch, and as many passes over the
data as usual. The ways to merge:

sum       the product of local approximations: the natural parameters of q(t), and other parameters, change by the sum
          of their changes in the parts
mean      the mean of the parameters
weighted  the mean of each row, with the squared gradients that each part has had for it as weights

The sums of squared gradients, with which AdaGrad shortens its steps, are those of all parts together after each round;
with `--own` each part keeps its own. One part is the usual training, which synchronous steps are equal to. P@k is in
percent, on at most 5,000 test points, by Φ h + b alone, and with `--sweeps` also after the sweeps over the labels,
which are on all points.
"""

import itertools
import json
from pathlib import Path

import click
import harness
import numpy as np

from xmlgp.mlgpf.stochastic import default_rate, optimiser_of
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.mlgpf.weight_space_ascent import WeightSpaceAscent
from xmlgp.preprocess.pipeline import find_inducing_inputs
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import LabelSampler, epoch_minibatches, make_batch
from xmlgp.training.schedules import SCHEDULES

#: Most test points.
TESTED = 5000

MEAN, LOG_VARIANCE, LOG_PRIOR = (f"latent_weights.{name}" for name in ("mean", "log_variance", "log_prior"))


def by_sum(before, parts, learned):
    """Return the product of local approximations: natural parameters, or others, change by the sum of all changes."""
    merged = {name: _total(value, [part[name] for part in parts]) for name, value in before.items()}
    precision, *precisions = (np.exp(-values[LOG_VARIANCE])[:, None] for values in (before, *parts))
    shifts = [own * part[MEAN] for own, part in zip(precisions, parts, strict=True)]
    # A sum of decreases could be more than there is.
    total = np.maximum(_total(precision, precisions), 0.5 * precision)
    merged[MEAN] = _total(precision * before[MEAN], shifts) / total
    merged[LOG_VARIANCE] = -np.log(total[:, 0])
    return merged


def _copied(arrays):
    return {name: value.copy() for name, value in arrays.items()}


def _total(before, values):
    return before + sum(value - before for value in values)


def by_mean(before, parts, learned):
    """Return the mean of all parts."""
    return {name: sum(part[name] for part in parts) / len(parts) for name in before}


def by_weighted_mean(before, parts, learned):
    """Return the mean of each row, weighted by the squared gradients that each part has had for it."""
    merged = {}
    for name, value in before.items():
        weights = [squares[f"{name}/square"].reshape(len(value), -1).sum(axis=1) for squares in learned]
        total = sum(weights)
        shares = [np.divide(weight, total, out=np.zeros_like(total), where=total > 0) for weight in weights]
        shape = (-1,) + (1,) * (value.ndim - 1)
        changes = (share.reshape(shape) * (part[name] - value) for share, part in zip(shares, parts, strict=True))
        merged[name] = value + sum(changes)
    return merged


MERGES = {"sum": by_sum, "mean": by_mean, "weighted": by_weighted_mean}


class Factors:
    """The stochastic steps of T, Φ and b over minibatches of any points.

    Parameters
    ----------
    train : Dataset
    settings : MLGPFSettings
        In weight space.
    """

    def __init__(self, train, settings):
        self.settings, self._labels = settings, train.labels
        self.preprocessed = find_inducing_inputs(train.features, settings)
        self._coordinates = self.preprocessed.coordinates(train.features, settings.dtype)
        self._model = make_model(settings)
        self._bound = self._model.make_bound(self._coordinates)
        self._sampler = LabelSampler(train.labels, settings.label_sample)
        self._schedule = SCHEDULES[settings.schedule]
        #: Labels of all minibatches so far, and the number of these.
        self.sampled, self.steps = 0, 0

    def train(self, workers, rounds, merge, own):
        """Return the parameters after all epochs.

        Parameters
        ----------
        workers, rounds : int
        merge : callable
        own : bool
            Whether each part keeps its own state of AdaGrad.
        """
        settings, N = self.settings, self._labels.shape[0]
        random = np.random.default_rng(settings.seed)
        parameters = self._model.initial(self._coordinates.feature_count, self._labels, random)
        states = [optimiser_of(settings)(parameters).state for _ in range(workers if own else 1)]
        parts = np.array_split(random.permutation(N), workers)
        epochs = settings.epoch_count(N)
        for epoch in range(epochs):
            minibatches = [
                [part[rows] for rows in epoch_minibatches(len(part), settings.batch_size, random)] for part in parts
            ]
            for number in range(rounds):
                found, learned = [], []
                for worker, own_minibatches in enumerate(minibatches):
                    moved, optimiser = _copied(parameters), optimiser_of(settings)(parameters)
                    before = states[worker if own else 0]
                    optimiser.state = _copied(before)
                    count = len(own_minibatches)
                    for step in np.array_split(np.arange(count), rounds)[number]:
                        share = (epoch + step / count) / epochs
                        self._step(moved, optimiser, own_minibatches[step], share, random)
                    found.append(moved)
                    learned.append({name: value - before[name] for name, value in optimiser.state.items()})
                    if own:
                        states[worker] = optimiser.state
                parameters = merge(parameters, found, learned)
                if not own:
                    states = [{name: value + sum(more[name] for more in learned) for name, value in states[0].items()}]
        return parameters

    def _step(self, parameters, optimiser, rows, share, random):
        batch = make_batch(self._coordinates, self._labels, rows)
        sample = self._sampler.sample(batch.labels, random, self._coordinates.dtype)
        batch = batch._replace(sample=sample)
        _, gradients = self._bound.value_and_gradients(parameters, batch, value_needed=False, for_step=True)
        optimiser.step(parameters, gradients, default_rate(self.settings) * self._schedule(share))
        self.sampled += len(sample.labels) if sample else len(parameters["bias"])
        self.steps += 1

    def sweep(self, parameters):
        """Return the parameters with label weights, after the sweeps over all points."""
        ascent = WeightSpaceAscent(self._model, self._coordinates, self._labels, None)
        for name, value in ascent.parameters(0).items():
            value[...] = parameters[name]
        for epoch in range(self.settings.epoch_count(self._labels.shape[0]), ascent.epochs):
            ascent.begin(epoch)
            for done in range(ascent.steps_in(epoch)):
                ascent.step(epoch, done)
        return ascent.parameters(ascent.epochs)


def traffic(factors, parameters):
    """Return the bytes that a worker sends, and as many that it receives: in a round, and in a synchronous step.

    In a round these are all of T and Φ, and as much again if the state of AdaGrad is common. In a step they are the
    latent means of the minibatch and the loadings of its labels, or their gradients; with more than one worker each has
    a share of the labels.
    """
    P, B = parameters["loadings"].shape[1], factors.settings.batch_size
    item = parameters["loadings"].itemsize
    return {
        "round": item * sum(parameters[name].size for name in (MEAN, "loadings")),
        "latent means of a step": item * B * P,
        "loadings of a step": round(item * P * factors.sampled / factors.steps),
        "steps": factors.steps,
    }


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--workers", multiple=True, type=click.IntRange(1), default=[1, 2, 4], show_default=True)
@click.option("--rounds", multiple=True, type=click.IntRange(1), default=[1, 4], show_default=True)
@click.option("--merge", "merges", multiple=True, type=click.Choice(MERGES), default=list(MERGES), show_default=True)
@click.option("--own/--common", help="Whether each part keeps its own state of AdaGrad.")
@click.option("--seeds", default=1, show_default=True)
@click.option("--sweeps", is_flag=True)
@harness.json_option
def main(data, workers, rounds, merges, own, seeds, sweeps, as_json):
    train, test = harness.read_folder(data)
    test = test.rows(np.sort(np.random.default_rng(0).permutation(test.N)[:TESTED]))
    rows = []
    for seed in range(seeds):
        settings = harness.resolve_settings(
            "default", train, {"inducing": "features", "calibration": False, "seed": seed}
        )
        # One part has nothing to merge.
        cases = [(1, 1, "sum")] if 1 in workers else []
        cases += itertools.product([count for count in workers if count > 1], rounds, merges)
        for count, times, merge in cases:
            factors = Factors(train, settings)
            row = {"seed": seed, "workers": count, "rounds": times, "merge": merge, "own": own}
            with one_blas_thread():
                parameters = factors.train(count, times, MERGES[merge], own)
                row["variances"] = float(np.exp(np.median(parameters[LOG_VARIANCE])))
                row["factors"] = measured(factors, parameters, test)
                if sweeps:
                    row["after sweeps"] = measured(factors, factors.sweep(parameters), test)
            rows.append(row | {"bytes": traffic(factors, parameters)})
            print(json.dumps(rows[-1]), flush=True)
    harness.write_json(as_json, {"rows": rows})


def measured(factors, parameters, test):
    """Return P@1, P@3 and P@5 on test points."""
    model = harness.Model(factors.settings, factors.preprocessed, parameters)
    return [round(value, 2) for value in model.precision(test).values()]


if __name__ == "__main__":
    main()
