"""Tables and figures show several seeds as a mean and its spread."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.papers.layout import draw_lines, precision_table


def row(means, std, restarts, paper):
    measures = {name: {"mean": mean, "std": std} for name, mean in zip(("P@1", "P@3", "P@5"), means, strict=True)}
    names = {"dataset": "bibtex", "method": "SE"}
    return names | {"restarts": restarts, "measures": measures, "paper": paper, "others": {}, "bound_s": 1, "kl_s": 2}


def test_precision_has_a_deviation_when_there_are_several_seeds():
    *_, several, one = precision_table(
        [row((60, 40, 20), 0.5, 3, {"p": [59, 41, 20], "bound_s": 6.5}), row((60, 40, 20), 0.0, 1, None)]
    )
    assert several == (
        "| bibtex | SE | 3 | 59.00 / 60.00 ± 0.50 / +1.00 | 41.00 / 40.00 ± 0.50 / -1.00 "
        "| 20.00 / 20.00 ± 0.50 / +0.00 | 6.5 / 1.0000 | 2.0000 |"
    )
    assert one.startswith("| bibtex | SE | 1 | — / 60.00 / — |")


def test_a_line_is_the_mean_of_its_seeds_in_the_band_of_their_values():
    axis = Figure().subplots()
    seeds = [[1.0, 4.0], [3.0, 4.5], [2.0, 5.0]]
    results = [{"history": [{"epoch": i + 1, "bound": bound} for i, bound in enumerate(bounds)]} for bounds in seeds]
    draw_lines(axis, [("SE", "", results), ("LINEAR", "", results[:1])], {}, "history", "bound")
    mean, single = axis.get_lines()
    (band,) = axis.collections
    np.testing.assert_allclose(mean.get_ydata(), [2, 4.5])
    np.testing.assert_allclose(single.get_ydata(), [1, 4])
    corners = band.get_paths()[0].get_extents()
    assert (corners.ymin, corners.ymax) == pytest.approx((1, 5))
    assert {text.get_text() for text in axis.legend().get_texts()} == {"SE", "LINEAR"}
