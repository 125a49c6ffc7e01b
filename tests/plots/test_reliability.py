"""Reliability diagrams: what they show, and that long names stay readable."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from xmlgp.metrics.probabilities import ReliabilityCurve, reliability_curve
from xmlgp.plots import plot_reliability, plot_reliability_by_group


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    probabilities = rng.random((40, 10)) ** 2
    return probabilities, rng.random((40, 10)) < probabilities


def test_curves_agree_with_scikit_learn(drawn, problem):
    probabilities, truth = problem
    curve = reliability_curve(csr_array(probabilities), csr_array(truth))
    plot_reliability({"model": curve}, io.BytesIO(), "title")
    upper, lower = drawn[0].axes
    diagonal, line = upper.get_lines()
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    frequency, confidence = calibration_curve(truth.ravel(), probabilities.ravel(), n_bins=15)
    np.testing.assert_allclose(line.get_xydata(), np.stack([confidence, frequency], axis=1))
    (counts,) = lower.get_lines()
    np.testing.assert_array_equal(counts.get_ydata(), np.histogram(probabilities, 15, (0, 1))[0])
    assert lower.get_yscale() == "log"
    assert upper.get_title() == "title"


def test_empty_bins_leave_a_gap(drawn):
    curve = reliability_curve(csr_array([[0.1, 0.9]]), csr_array([[False, True]]), bins=3)
    plot_reliability({"model": curve}, io.BytesIO())
    upper, lower = drawn[0].axes
    assert upper.get_lines()[1].get_xydata().tolist() == [[0.1, 0], [0.9, 1]]
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), [1, np.nan, 1])


def test_panels_align_and_long_names_are_complete(drawn, problem):
    count = 9
    curve = reliability_curve(csr_array(problem[0]), csr_array(problem[1]))
    names = [f"{'a/long/path/' * 9}{number}" for number in range(count)]
    plot_reliability(dict.fromkeys(names, curve), io.BytesIO())
    (figure,) = drawn
    # savefig leaves the layout in its own resolution; extents are in that of the figure.
    figure.draw_without_rendering()
    upper, lower = (axis.get_window_extent() for axis in figure.axes)
    assert upper.width == pytest.approx(upper.height, rel=0.01)
    assert (upper.x0, upper.x1) == pytest.approx((lower.x0, lower.x1), abs=1)
    (legend,) = figure.legends
    shown = [text.get_text().replace("\n", "") for text in legend.get_texts()]
    assert shown == ["calibrated", *names]
    box = legend.get_window_extent()
    assert box.y0 > upper.y1
    assert box.x1 < figure.bbox.x1
    assert len({line.get_color() for line in figure.axes[0].get_lines()[1:]}) == count


def test_groups_have_their_frequencies_and_probabilities(drawn):
    curve = ReliabilityCurve(["0", "1", "2-3"], np.array([[4, 0, 5], [1, 0, 2], [2, 0, 1]]))
    plot_reliability_by_group({"model": curve}, io.BytesIO(), "training points")
    (axis,) = drawn[0].axes
    frequency, probability = axis.get_lines()
    # An empty group has no point.
    assert frequency.get_xydata().tolist() == [[0, 0.5], [2, 0.2]]
    assert probability.get_xydata().tolist() == [[0, 0.25], [2, 0.4]]
    assert (frequency.get_linestyle(), probability.get_linestyle()) == ("-", "--")
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "2-3"]
    # Of many groups some are named.
    ranks = ReliabilityCurve([str(rank + 1) for rank in range(300)], np.ones((3, 300)))
    plot_reliability_by_group({"model": ranks}, io.BytesIO(), "rank")
    names = [label.get_text() for label in drawn[1].axes[0].get_xticklabels()]
    assert (len(names), names[0], names[-1]) == (20, "1", "300")
