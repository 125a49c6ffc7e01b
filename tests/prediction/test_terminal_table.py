"""The table of labels for people has what a line can hold, and never more columns than the terminal."""

import pytest
from tqdm.utils import disp_len

from xmlgp.prediction.terminal_table import labels_for_people


def record(*labels, id=1, std=0.05):
    """Return a record of names, scores and words."""
    found = [
        {"label": name, "probability": score, "std": std, "for": [{"word": word, "contribution": 1} for word in words]}
        for name, score, words in labels
    ]
    return {"id": id, "labels": found}


def test_a_label_is_a_line_with_a_bar_numbers_and_words():
    found = labels_for_people(record(("wifi", 0.5, ["wireless", "net"]), ("printer", 1.0, [])), "probability", 80)
    assert found.splitlines() == [
        "1",
        "  wifi     █████       50.0 % ±  5.0  wireless, net",
        "  printer  ██████████ 100.0 % ±  5.0",
    ]


@pytest.mark.parametrize(("std", "shown"), [(3.6e-6, " 0.0"), (0.00087, " 0.1"), (0.0436, " 4.4"), (0.21, "21.0")])
def test_deviations_have_one_decimal_and_words_line_up(std, shown):
    found = labels_for_people(record(("wifi", 0.5, ["net"]), std=std), "probability", 80)
    assert found.splitlines()[1] == f"  wifi  █████       50.0 % ± {shown}  net"


def test_utilities_and_scores_without_deviations():
    points = {"id": "a.txt", "labels": [{"label": 3, "utility": -1.25, "std": 0.5}]}
    assert labels_for_people(points, "utility", 80) == "a.txt\n  3      -1.25 ±  0.5\n"
    assert labels_for_people({"id": 1, "labels": [{"label": "a", "probability": 0.0}]}, "probability", 80) == (
        "1\n  a               0.0 %\n"
    )
    assert labels_for_people({"id": 2, "labels": []}, "probability", 80) == "2\n"


@pytest.mark.parametrize("width", [30, 40, 79, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    long = record(("機械 学習" * 20, 1.0, ["語" * 90]), ("x" * 300, 0.003, ["word"] * 40), id="file" * 90)
    lines = labels_for_people(long, "probability", width).splitlines()
    assert max(map(disp_len, lines)) == width
    assert len(lines) == 3
