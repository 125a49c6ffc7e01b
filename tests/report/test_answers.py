"""The answers at the top of the page, by hand."""

import pytest

from xmlgp.metrics.intervals import Interval
from xmlgp.metrics.probabilities import Bin
from xmlgp.reporting.answers import Measure, answer_how_good, answer_trust, answer_what_is_wrong, calibration_in_words


def measure(value, low, high):
    return Measure("ECE@5", value, Interval(low, high), "")


@pytest.mark.parametrize(
    ("low", "high", "expected", "conclusion"),
    [
        (0.01, 0.05, "Yes", "can be trusted."),
        (0.01, 0.09, "Roughly", "say roughly how often labels are true."),
        (0.06, 0.20, "Roughly", "say roughly how often labels are true."),
        (0.01, 0.11, "Unclear", "too few documents to say whether the probabilities can be trusted."),
        (0.11, 0.20, "No", "cannot be taken at their word, only their order."),
    ],
)
def test_probabilities_are_trusted_by_the_interval_of_their_error(low, high, expected, conclusion):
    error = measure((low + high) / 2, low, high)
    assert answer_trust(error, [Bin("1", 10, 0.5, 0.5)], []).short == expected
    assert calibration_in_words(error).endswith(conclusion)
    assert f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)" in calibration_in_words(error)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([Bin("1", 10, 0.9, 0.7), Bin("2", 10, 0.3, 0.3)], "They are too high by 10.0 points on average."),
        ([Bin("1", 10, 0.5, 0.7), Bin("2", 30, 0.3, 0.5)], "They are too low by 20.0 points on average."),
        ([Bin("1", 10, 0.9, 0.7), Bin("2", 10, 0.3, 0.5)], "Some are too high, others too low."),
    ],
)
def test_the_direction_of_wrong_probabilities_is_said(ranks, expected):
    assert answer_trust(measure(0.15, 0.12, 0.18), ranks, []).sentences[1] == expected


def test_what_trusted_probabilities_say_is_told_by_a_bin_that_was_counted():
    few = Bin("67 to 73 %", 49, 0.7, 0.71)
    enough = Bin("73 to 80 %", 50, 0.76, 0.9)
    most = Bin("53 to 60 %", 1234, 0.55, 0.584)
    sure = Bin("93 to 100 %", 5000, 0.97, 0.97)
    rare = Bin("0 to 7 %", 9000, 0.01, 0.01)

    def examples(*bins):
        return answer_trust(measure(0.01, 0.0, 0.02), [Bin("1", 10, 0.5, 0.5)], bins).sentences[1:]

    assert examples(rare, few, enough, sure) == ["Of 50 labels suggested with 73 to 80 %, 90 % are true."]
    assert examples(rare, most, enough, sure) == ["Of 1,234 labels suggested with 53 to 60 %, 58 % are true."]
    assert examples(rare, few, sure) == []


def test_how_good_and_what_is_wrong():
    first = Measure("P@1", 0.871, Interval(0.86, 0.88), "")
    assert answer_how_good(first, None, 2.0).short == "87 %"
    assert len(answer_how_good(first, None, 2.0).sentences) == 1
    five = Measure("P@5", 0.4, Interval(0.3, 0.5), "")
    assert "2.00 (1.50 to 2.50) are right on average" in answer_how_good(first, five, 2.5).sentences[1]
    assert answer_what_is_wrong(0.75, 0.4) == (
        "25 %",
        ["of the given labels are wrong, and 60 % of the true labels are missed."],
    )
    # Nothing is given, or nothing of it is true.
    assert answer_what_is_wrong(0.0, 0.0).short == answer_what_is_wrong(float("nan"), 0.0).short == "100 %"
