"""The answers at the top of a report: how good the model is, whether to trust its probabilities, what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xmlgp.metrics.intervals import FEW_POINTS, Interval
from xmlgp.metrics.probabilities import Bin

__all__ = ["Answer", "Measure", "answer_how_good", "answer_trust", "answer_what_is_wrong", "calibration_in_words"]

#: Probabilities are trusted if they are off by no more than this on average: of labels with 70 %, from 65 to 75 % are
#: true, which changes few decisions.
TRUSTED = 0.05

#: Probabilities that are off by more than this on average cannot be trusted: they say little more than a ranking does.
ROUGH = 0.10

#: Mean probabilities of bins that make an example: near 0 and 1 it is no surprise that they are right.
EXAMPLES = (0.5, 0.9)


class Measure(NamedTuple):
    """A measure: its name, its value and its 95 % interval, both from 0 to 1, and what it means in a sentence."""

    name: str
    value: float
    interval: Interval
    meaning: str


class Answer(NamedTuple):
    """An answer in a word or a figure, which the first of its sentences goes on with."""

    short: str
    sentences: list[str]


def answer_how_good(first: Measure, first_five: Measure | None, labels_per_document: float) -> Answer:
    """Answer from P@1 and, if there are so many labels, P@5."""
    low, high = first.interval
    sentences = [
        "of the documents get a right label as the first suggestion "
        f"(95 % interval: {100 * low:.0f} to {100 * high:.0f} %)."
    ]
    if first_five:
        low, high = first_five.interval
        sentences.append(
            f"Of the first five suggestions, {5 * first_five.value:.2f} ({5 * low:.2f} to {5 * high:.2f}) are right on "
            f"average, where a document has {labels_per_document:.2f} true labels."
        )
    return Answer(f"{100 * first.value:.0f} %", sentences)


def answer_trust(error: Measure, ranks: Sequence[Bin], probabilities: Sequence[Bin]) -> Answer:
    """Answer from ECE@k, the suggestions of each of the k first ranks, and all by their probability."""
    low, high = error.interval
    sentences = [
        f"They are off by {100 * error.value:.1f} percentage points on average (95 % interval: {100 * low:.1f} to "
        f"{100 * high:.1f})."
    ]
    short = _trust(error.interval)
    if short == "Yes":
        return Answer(short, [*sentences, *_example(probabilities)])
    count = sum(rank.count for rank in ranks)
    excess = sum(rank.count * (rank.probability - rank.true) for rank in ranks) / count
    # The error is at least as large as the mean difference; if they are close, nearly all differ in one direction.
    if abs(excess) > error.value / 2:
        sentences.append(
            f"They are too {'high' if excess > 0 else 'low'} by {100 * abs(excess):.1f} points on average."
        )
    else:
        sentences.append("Some are too high, others too low.")
    return Answer(short, sentences)


def _example(probabilities: Sequence[Bin]) -> list[str]:
    """Return a sentence about the largest bin that makes an example, if one has enough entries."""
    low, high = EXAMPLES
    bins = [row for row in probabilities if low <= row.probability <= high and row.count >= FEW_POINTS]
    if not bins:
        return []
    largest = max(bins, key=lambda row: row.count)
    return [f"Of {largest.count:,} labels suggested with {largest.bin}, {100 * largest.true:.0f} % are true."]


def calibration_in_words(error: Measure) -> str:
    """Return a sentence on ECE@k, its interval and what follows from them."""
    conclusion = {
        "Yes": "the probabilities can be trusted",
        "Roughly": "the probabilities say roughly how often labels are true",
        "No": "the probabilities cannot be taken at their word, only their order",
        "Unclear": "there are too few documents to say whether the probabilities can be trusted",
    }[_trust(error.interval)]
    low, high = error.interval
    value = f"{100 * error.value:.1f} % (95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    return f"The expected calibration error, {error.name}, is {value}: {conclusion}."


def _trust(interval: Interval) -> str:
    """Return whether probabilities can be trusted, given the interval of the calibration error."""
    low, high = interval
    if high <= TRUSTED:
        return "Yes"
    if low > ROUGH:
        return "No"
    return "Roughly" if low > TRUSTED or high <= ROUGH else "Unclear"


def answer_what_is_wrong(precision: float, recall: float) -> Answer:
    """Answer from the micro measures of given labels; without any, precision is 0 or NaN."""
    if math.isnan(precision) or not (precision or recall):
        return Answer("100 %", ["of the true labels are missed: no given label is true."])
    missed = f"{100 * (1 - recall):.0f} % of the true labels are missed."
    return Answer(f"{100 * (1 - precision):.0f} %", [f"of the given labels are wrong, and {missed}"])
