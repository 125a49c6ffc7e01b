"""Generated data sets in the shape of well-known large ones, with labels that features predict.

    python -m benchmarks generate SHAPE FOLDER [--scale 1] [--seed 0]

Writes FOLDER/train.txt and FOLDER/test.txt in the repository's text format, a block of points at a time. The scale
multiplies the number of points; its square root multiplies the numbers of features and labels, as vocabularies grow
(Heaps' law).

A point draws labels from a power law, some of them associates of its first label. Part of its words come from a few
dozen words of each of its labels, the rest from a background that follows a power law as well. Words are weighted by
tf-idf and written with three decimals.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from xmlgp.data.dataset import Dataset, Features, as_csr, stack
from xmlgp.data.repository_format import write_dataset
from xmlgp.runtime.progress import Progress

__all__ = ["SHAPES", "GeneratedSet", "Shape", "write"]


@dataclass(frozen=True)
class Shape:
    """The shape of a data set: N, D, K, and the features and labels of a point on average.

    `own` is the share of the words that come from a label; the lower, the harder is prediction. The r-th most frequent
    label has a frequency ∝ (r + label_offset)^-label_exponent.
    """

    N: int
    D: int
    K: int
    features: float
    labels: float
    own: float
    label_offset: float = 3
    label_exponent: float = 1

    def scaled(self, scale):
        """Return the shape with the number of points multiplied by `scale`."""
        D, K = (max(10, round(count * scale**0.5)) for count in (self.D, self.K))
        return dataclasses.replace(self, N=max(1, round(self.N * scale)), D=D, K=K)

    def share(self, share):
        """Return the shape with that share of the points and of the labels, so that labels have as many points."""
        D = max(10, round(self.D * share**0.5))
        N, K = (max(1, round(count * share)) for count in (self.N, self.K))
        return dataclasses.replace(self, N=N, D=D, K=K)


SHAPES = {
    "amazoncat": Shape(N=1_186_239, D=203_882, K=13_330, features=71, labels=5, own=0.15),
    # Most labels have one to five points, the most frequent one two thousand.
    "amazon-670k": Shape(
        N=490_449, D=135_909, K=670_091, features=76, labels=5.5, own=0.4, label_offset=20, label_exponent=0.7
    ),
    "eurlex": Shape(N=15_539, D=5_000, K=3_993, features=236, labels=5.3, own=0.06),
    "wide": Shape(N=100_000, D=50_000, K=200_000, features=70, labels=5, own=0.3),
    # Names and docstrings of functions, and the functions that they call.
    "calls": Shape(N=168_777, D=51_801, K=28_164, features=20.7, labels=4.6, own=0.35),
    # Descriptions of a dozen words, as in library catalogues.
    "titles": Shape(N=41_103, D=23_376, K=580, features=12, labels=2, own=0.5),
}

#: Most test points; otherwise a tenth of the training points.
TEST_LIMIT = 10_000

#: Points that are drawn together, from their own stream of random numbers.
BLOCK = 2048

# Frequency of the r-th most frequent word: 1 / (r + offset), a power law with a flattened head.
WORD_OFFSET = 10
OWN_WORD_OFFSET = 200

#: Words of a label; the r-th has frequency 1 / (r + 2).
OWN_WORDS = 40
OWN_OFFSET = 2

#: Labels that often occur together with a label.
ASSOCIATES = 8

#: Share of the labels after the first that are associates of the first.
ASSOCIATE_SHARE = 0.5

#: Standard deviation of the logarithm of a point's length.
LENGTH_SPREAD = 0.5

#: Rounds that adapt lengths, as repeated words count once.
PILOT_ROUNDS = 4


class GeneratedSet:
    """A data set that is drawn on access, with `rows` and `shape` as in `Dataset`; test points are others of it."""

    def __init__(self, shape, seed=0, test=False):
        self.N, self.D, self.K = shape.N, shape.D, shape.K
        self._seed, self._part = seed, int(test)
        random = np.random.default_rng([seed, 2])
        # The numbers of words and labels do not depend on their frequency.
        self._words, self._labels = random.permutation(self.D), random.permutation(self.K)
        shape_own = self.K, min(OWN_WORDS, self.D)
        self._own = self._words[_power_law(random.random(shape_own, np.float32), self.D, OWN_WORD_OFFSET)]
        self._label_law = self.K, shape.label_offset, shape.label_exponent
        self._associates = self._labels[_power_law(random.random((self.K, ASSOCIATES)), *self._label_law)]
        frequency = np.empty(self.D)
        frequency[self._words] = 1 / ((np.arange(self.D) + WORD_OFFSET) * np.log(self.D / WORD_OFFSET + 1))
        self._rarity = np.log(1 + 1 / (shape.features * frequency))
        self._own_share = shape.own
        self._word_count, self._label_count = shape.features, shape.labels
        for _ in range(PILOT_ROUNDS):
            pilot = self._draw(np.random.default_rng([seed, 3]))
            self._word_count *= shape.features * pilot.N / pilot.features.sparse.nnz
            self._label_count *= shape.labels * pilot.N / pilot.labels.nnz
        if test:
            self.N = min(TEST_LIMIT, -(-self.N // 10))

    @property
    def shape(self):
        """N, D and K, as of a `Dataset`."""
        return self.N, self.D, self.K

    def rows(self, selection):
        """Return the points of a slice."""
        start, stop, _ = selection.indices(self.N)
        first = start // BLOCK
        blocks = range(first, max(first + 1, -(-stop // BLOCK)))
        drawn = [self._draw(np.random.default_rng([self._seed, self._part, block])) for block in blocks]
        return stack(drawn).rows(slice(start - first * BLOCK, stop - first * BLOCK))

    def _draw(self, random):
        labels = self._draw_labels(random)
        return Dataset(Features(self._draw_features(labels, random)), labels)

    def _draw_labels(self, random):
        counts = 1 + random.poisson(max(self._label_count - 1, 0), BLOCK)
        rows, starts = np.repeat(np.arange(BLOCK), counts), np.cumsum(counts) - counts
        drawn = self._labels[_power_law(random.random(len(rows)), *self._label_law)]
        associates = self._associates[drawn[starts][rows], random.integers(0, ASSOCIATES, len(rows))]
        associated = random.random(len(rows)) < ASSOCIATE_SHARE
        associated[starts] = False
        keys = np.unique(rows * self.K + np.where(associated, associates, drawn))
        return as_csr(None, keys % self.K, _ends(keys // self.K), self.K)

    def _draw_features(self, labels, random):
        lengths = self._word_count * random.lognormal(-(LENGTH_SPREAD**2) / 2, LENGTH_SPREAD, BLOCK)
        counts = np.maximum(1, lengths.round().astype(int))
        rows = np.repeat(np.arange(BLOCK), counts)
        words = self._words[_power_law(random.random(len(rows)), self.D, WORD_OFFSET)]
        own = np.flatnonzero(random.random(len(rows)) < self._own_share)
        chosen = (random.random(len(own)) * np.diff(labels.indptr)[rows[own]]).astype(int)
        places = _power_law(random.random(len(own)), self._own.shape[1], OWN_OFFSET)
        words[own] = self._own[labels.indices[labels.indptr[rows[own]] + chosen], places]
        keys, repetitions = np.unique(rows * self.D + words, return_counts=True)
        rows, words = keys // self.D, keys % self.D
        values = (1 + np.log(repetitions)) * self._rarity[words]
        values /= np.sqrt(np.bincount(rows, np.square(values)))[rows]
        values = np.maximum(values.round(3), 0.001).astype(np.float32)
        return as_csr(values, words, _ends(rows), self.D)


def write(shape, folder, seed=0):
    """Write train.txt and test.txt of a shape."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, test in ("train", False), ("test", True):
        write_dataset(Path(folder, f"{name}.txt"), GeneratedSet(shape, seed, test))


def _power_law(uniforms, size, offset, exponent=1):
    """Return ranks below `size` with density ∝ (rank + offset)^-exponent, from uniform random numbers."""
    if exponent == 1:
        ranks = offset * (size / offset + 1) ** uniforms - offset
    else:
        power = 1 - exponent
        start, stop = offset**power, (size + offset) ** power
        ranks = (start + (stop - start) * uniforms) ** (1 / power) - offset
    return np.minimum(ranks.astype(np.int64), size - 1)


def _ends(rows):
    """Return `indptr` of a block from the sorted row numbers of its elements."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=BLOCK))])


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("shape", type=click.Choice(sorted(SHAPES)))
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(shape, folder, scale, seed):
    with Progress(is_shown=True)("writing"):
        write(SHAPES[shape].scaled(scale), folder, seed)


if __name__ == "__main__":
    main()
