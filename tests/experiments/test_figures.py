"""The figures that commands draw: what is in them, and in which files they are written."""

import io
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from xmlgp.errors import XmlgpError
from xmlgp.experiments.figures import LABELS, draw_bounds, draw_reliability
from xmlgp.metrics.calibration import reliability_curve
from xmlgp.training.history import OBJECTIVES

HISTORY = [{"epoch": 1, "bound": -3.0}, {"epoch": 2, "bound": -2.5}]
HISTORIES = {"mlgpf": {"model": HISTORY}}


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    probabilities = rng.random((40, 10)) ** 2
    return probabilities, rng.random((40, 10)) < probabilities


def test_reliability_is_what_scikit_learn_says(drawn, problem):
    probabilities, truth = problem
    curve = reliability_curve(probabilities, csr_array(truth))
    draw_reliability({"model": curve}, io.BytesIO(), "title")
    upper, lower = drawn[0].axes
    diagonal, line = upper.get_lines()
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    frequency, confidence = calibration_curve(truth.ravel(), probabilities.ravel(), n_bins=15)
    np.testing.assert_allclose(line.get_xydata(), np.stack([confidence, frequency], axis=1))
    (counts,) = lower.get_lines()
    np.testing.assert_array_equal(counts.get_ydata(), np.histogram(probabilities, 15, (0, 1))[0])
    assert lower.get_yscale() == "log"
    assert upper.get_title() == "title"


def test_bins_without_entries_leave_a_gap(drawn):
    curve = reliability_curve(np.array([[0.1, 0.9]]), csr_array([[False, True]]), bins=3)
    draw_reliability({"model": curve}, io.BytesIO())
    upper, lower = drawn[0].axes
    assert upper.get_lines()[1].get_xydata().tolist() == [[0.1, 0], [0.9, 1]]
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), [1, np.nan, 1])


@pytest.mark.parametrize("count", [1, 9])
def test_axes_are_equal_and_below_each_other_and_names_are_whole(drawn, problem, count):
    curve = reliability_curve(problem[0], csr_array(problem[1]))
    names = [f"{'a/long/path/' * 9}{number}" for number in range(count)]
    draw_reliability(dict.fromkeys(names, curve), io.BytesIO())
    (figure,) = drawn
    # Once more in the resolution in which extents are told.
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


def test_what_every_model_raises_has_a_label():
    assert LABELS.keys() == set(OBJECTIVES.values())


def test_bounds_are_drawn_against_the_epoch(drawn):
    shorter = HISTORY[:1]
    draw_bounds({"mlgpf": {"long": HISTORY, "short": shorter}}, io.BytesIO())
    (axis,) = drawn[0].axes
    assert [line.get_label() for line in axis.get_lines()] == ["long", "short"]
    assert [line.get_xydata().tolist() for line in axis.get_lines()] == [[[1, -3], [2, -2.5]], [[1, -3]]]
    # A line of one point would not be seen.
    assert [line.get_marker() for line in axis.get_lines()] == ["None", "o"]
    assert (axis.get_title(), axis.get_xlabel(), axis.get_ylabel()) == ("", "epoch", "lower bound")


def test_what_is_not_to_be_compared_has_a_panel_of_its_own(drawn):
    topics = [{"epoch": 1, "log_posterior": -900.0}, {"epoch": 2, "log_posterior": -700.0}]
    classes = [{"epoch": 1, "bound": -9.0}, {"epoch": 2, "bound": -8.5}]
    draw_bounds({"bmlpl": {"topics": topics}} | HISTORIES | {"gpc": {"classes": classes}}, io.BytesIO())
    axes = drawn[0].axes
    assert [axis.get_title() for axis in axes] == ["bmlpl", "mlgpf", "gpc"]
    assert [axis.get_ylabel() for axis in axes] == ["log posterior", "lower bound", "lower bound"]
    assert [axis.get_xlabel() for axis in axes] == ["epoch"] * 3
    assert [[line.get_ydata().tolist() for line in axis.get_lines()] for axis in axes] == [
        [[-900, -700]],
        [[-3, -2.5]],
        [[-9, -8.5]],
    ]
    for axis, beside in itertools.pairwise(axes):
        assert not axis.get_window_extent().overlaps(beside.yaxis.get_label().get_window_extent())


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml")])
def test_the_ending_chooses_the_format(tmp_path, name, start):
    draw_bounds(HISTORIES, str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_stream_gets_a_png():
    stream = io.BytesIO()
    draw_bounds(HISTORIES, stream)
    assert stream.getvalue().startswith(b"\x89PNG")


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(XmlgpError, match=r"a\.txt: figures are written as png, pdf or svg, not as txt"):
        draw_bounds(HISTORIES, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
