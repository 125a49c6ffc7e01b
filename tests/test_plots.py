"""Figures: what they show, their formats, and that long names stay readable."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from tests.figures import drawn
from xmlgp.errors import XmlgpError
from xmlgp.metrics.probabilities import reliability_curve
from xmlgp.plots import Panel, plot_objective, plot_reliability

__all__ = ["drawn"]

HISTORY = [{"epoch": 1, "bound": -3.0}, {"epoch": 2, "bound": -2.5}]
PANELS = {"mlgpf": Panel("bound", {"model": HISTORY})}

PROBABILITIES = np.random.default_rng(0).random((40, 10)) ** 2
TRUTH = np.random.default_rng(1).random((40, 10)) < PROBABILITIES
CURVE = reliability_curve(csr_array(PROBABILITIES), csr_array(TRUTH))


def lines_of(axis):
    return [line.get_xydata().tolist() for line in axis.get_lines()]


def test_panels_of_the_objective_have_titles_and_do_not_overlap(drawn):
    topics = [{"epoch": 1, "log_posterior": -900.0}, {"epoch": 2, "log_posterior": -700.0}]
    both = {"long": HISTORY, "short": HISTORY[:1]}
    plot_objective({"bmlpl": Panel("log_posterior", {"topics": topics}), "mlgpf": Panel("bound", both)}, io.BytesIO())
    left, right = drawn[0].axes
    assert [axis.get_title() for axis in (left, right)] == ["bmlpl", "mlgpf"]
    assert [axis.get_ylabel() for axis in (left, right)] == ["log posterior", "lower bound"]
    assert [axis.get_xlabel() for axis in (left, right)] == ["epoch"] * 2
    assert (lines_of(left), lines_of(right)) == ([[[1, -900], [2, -700]]], [[[1, -3], [2, -2.5]], [[1, -3]]])
    assert [line.get_label() for line in right.get_lines()] == ["long", "short"]
    # A line of one point would be invisible without a marker.
    assert [line.get_marker() for line in right.get_lines()] == ["None", "o"]
    assert not left.get_window_extent().overlaps(right.yaxis.get_label().get_window_extent())
    plot_objective(PANELS, io.BytesIO())
    assert drawn[1].axes[0].get_title() == ""


def test_the_suffix_chooses_the_format_png_without_one(tmp_path):
    for name, start in ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml"), ("a", b"\x89PNG"):
        plot_objective(PANELS, str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(XmlgpError, match=r"b\.txt: figures are written as png, pdf or svg, not as txt"):
        plot_objective(PANELS, tmp_path / "b.txt")
    assert not (tmp_path / "b.txt").exists()


def test_reliability_agrees_with_scikit_learn(drawn):
    plot_reliability({"model": CURVE}, io.BytesIO(), "title")
    upper, lower = drawn[0].axes
    diagonal, line = upper.get_lines()
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    frequency, confidence = calibration_curve(TRUTH.ravel(), PROBABILITIES.ravel(), n_bins=15)
    np.testing.assert_allclose(line.get_xydata(), np.stack([confidence, frequency], axis=1))
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), np.histogram(PROBABILITIES, 15, (0, 1))[0])
    assert (lower.get_yscale(), upper.get_title()) == ("log", "title")
    # Empty bins leave a gap.
    curve = reliability_curve(csr_array([[0.1, 0.9]]), csr_array([[False, True]]), bins=3)
    plot_reliability({"model": curve}, io.BytesIO())
    upper, lower = drawn[1].axes
    assert lines_of(upper)[1] == [[0.1, 0], [0.9, 1]]
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), [1, np.nan, 1])


def test_panels_align_and_long_names_are_complete(drawn):
    names = [f"{'a/long/path/' * 9}{number}" for number in range(9)]
    plot_reliability(dict.fromkeys(names, CURVE), io.BytesIO())
    (figure,) = drawn
    # savefig leaves the layout in its own resolution; extents are in that of the figure.
    figure.draw_without_rendering()
    upper, lower = (axis.get_window_extent() for axis in figure.axes)
    assert upper.width == pytest.approx(upper.height, rel=0.01)
    assert (upper.x0, upper.x1) == pytest.approx((lower.x0, lower.x1), abs=1)
    (legend,) = figure.legends
    assert [text.get_text().replace("\n", "") for text in legend.get_texts()] == ["calibrated", *names]
    box = legend.get_window_extent()
    assert box.y0 > upper.y1
    assert box.x1 < figure.bbox.x1
    assert len({line.get_color() for line in figure.axes[0].get_lines()[1:]}) == len(names)
