"""Figures: what they show, their formats, and that long names stay readable."""

import io

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve

from tests.figures import drawn
from xmlgp.errors import XmlgpError
from xmlgp.metrics.probabilities import ReliabilityCurve, reliability_by_rank, reliability_curve
from xmlgp.plots import Panel, Run, plot_objective, plot_reliability, plot_reliability_by

__all__ = ["drawn"]

HISTORY = [{"epoch": 1, "bound": -3.0}, {"epoch": 2, "bound": -2.5}]
PANELS = {"mlgpf": Panel("bound", {"model": Run(HISTORY)})}

PROBABILITIES = np.random.default_rng(0).random((40, 10)) ** 2
TRUTH = np.random.default_rng(1).random((40, 10)) < PROBABILITIES
CURVE = reliability_curve(csr_array(PROBABILITIES), csr_array(TRUTH))


def lines_of(axis):
    return [line.get_xydata().tolist() for line in axis.get_lines()]


def named_lines(axis):
    return {line.get_label(): line for line in axis.get_lines() if not line.get_label().startswith("_")}


def test_panels_of_the_objective_have_titles_and_do_not_overlap(drawn):
    topics = Run([{"epoch": 1, "log_posterior": -900.0}, {"epoch": 2, "log_posterior": -700.0}])
    both = {"long": Run(HISTORY), "short": Run(HISTORY[:1])}
    panels = {"bmlpl": Panel("log_posterior", {"topics": topics}, "iteration"), "mlgpf": Panel("bound", both)}
    plot_objective(panels, io.BytesIO())
    left, right = drawn[0].axes
    assert [axis.get_legend().get_title().get_text() for axis in (left, right)] == ["bmlpl", "mlgpf"]
    assert [axis.get_ylabel() for axis in (left, right)] == ["log posterior", "lower bound"]
    assert [axis.get_xlabel() for axis in (left, right)] == ["iteration", "epoch"]
    assert (lines_of(left), lines_of(right)) == ([[[1, -900], [2, -700]]], [[[1, -3], [2, -2.5]], [[1, -3]]])
    assert [line.get_label() for line in right.get_lines()] == ["long", "short"]
    # A line of one point would be invisible without a marker.
    assert [line.get_marker() for line in right.get_lines()] == ["None", "o"]
    drawn[0].draw_without_rendering()
    assert not left.get_window_extent().overlaps(right.yaxis.get_label().get_window_extent())
    for axis in (left, right):
        assert not axis.get_legend().get_window_extent().overlaps(axis.get_window_extent())
    plot_objective(PANELS, io.BytesIO())
    assert drawn[1].axes[0].get_legend().get_title().get_text() == ""


def sweeping(epochs, with_dense=0):
    """Return a history of epochs, perhaps some with dense features, and of two sweeps."""
    history = [{"epoch": epoch + 1, "bound": -9.0 + epoch} for epoch in range(epochs + with_dense + 2)]
    for number in range(with_dense):
        history[epochs + number]["dense_epoch"] = number + 1
    for number in range(2):
        history[-2 + number]["sweep"] = number + 1
        if with_dense:
            history[-2 + number]["dense_epoch"] = with_dense
    return history


def test_no_line_joins_quantities_that_are_not_comparable(drawn):
    learned = [[{"epoch": 1, "bound": -1.0}, {"epoch": 2, "bound": -2.0}], [{"epoch": 1, "bound": -3.0}]]
    plot_objective({"": Panel("bound", {"model": Run(sweeping(3, 2), learned)})}, io.BytesIO())
    (axis,) = drawn[0].axes
    assert [[x for x, _ in line] for line in lines_of(axis)] == [[1, 2, 3], [4, 5], [6, 7], [8, 9], [10]]
    assert [line.get_linestyle() for line in axis.get_lines()] == ["-", "--", "None", "None", "None"]
    assert len({line.get_color() for line in axis.get_lines()}) == 1
    # The batches have one name.
    assert [text.get_text() for text in axis.texts] == ["epochs", "with dense features", "sweeps", "learned"]
    assert "its bound is another one" in drawn[0].get_supxlabel()
    # What is of one quantity needs no words.
    plot_objective(PANELS, io.BytesIO())
    assert ([*drawn[1].axes[0].texts], drawn[1].get_supxlabel()) == ([], "")


def test_runs_with_different_phases_have_them_in_the_legend(drawn):
    runs = {"a": Run(sweeping(3)), "b": Run(sweeping(5)), "c": Run(HISTORY)}
    plot_objective({"": Panel("bound", runs)}, io.BytesIO())
    (axis,) = drawn[0].axes
    assert list(named_lines(axis)) == ["a", "b", "c", "epochs", "sweeps"]
    boundaries = [line for line in axis.get_lines() if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in boundaries] == [3.5, 5.5]
    assert [line.get_color() for line in boundaries] == [named_lines(axis)[name].get_color() for name in "ab"]


def test_samples_of_the_burn_in_are_marked(drawn):
    history = [{"epoch": epoch, "log_posterior": -9.0 + epoch} for epoch in (1, 2, 3, 4, 5)]
    plot_objective({"": Panel("log_posterior", {"gibbs": Run(history, burned=2)}, "iteration")}, io.BytesIO())
    (axis,) = drawn[0].axes
    assert [[x for x, _ in line] for line in lines_of(axis)] == [[1, 2], [3, 4, 5]]
    assert [text.get_text() for text in axis.texts] == ["burn-in", "samples"]


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
    lines = named_lines(upper)
    assert list(lines) == ["calibrated", "model", "fewer than 50 entries"]
    assert lines["calibrated"].get_xydata().tolist() == [[0, 0], [1, 1]]
    frequency, confidence = calibration_curve(TRUTH.ravel(), PROBABILITIES.ravel(), n_bins=15)
    np.testing.assert_allclose(lines["model"].get_xydata(), np.stack([confidence, frequency], axis=1))
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), np.histogram(PROBABILITIES, 15, (0, 1))[0])
    assert (lower.get_yscale(), upper.get_title()) == ("log", "title")
    # Empty bins leave a gap.
    curve = reliability_curve(csr_array([[0.1, 0.9]]), csr_array([[False, True]]), bins=3)
    plot_reliability({"model": curve}, io.BytesIO())
    upper, lower = drawn[1].axes
    assert named_lines(upper)["model"].get_xydata().tolist() == [[0.1, 0], [0.9, 1]]
    np.testing.assert_array_equal(lower.get_lines()[0].get_ydata(), [1, np.nan, 1])


def ends_of(axis):
    """Return the ends of the upright lines in a panel."""
    (bars,) = axis.collections
    return np.array([[low[1], high[1]] for low, high in bars.get_segments()])


def test_sparse_bins_have_wide_intervals_and_no_line_to_them(drawn):
    curve = ReliabilityCurve(["low", "high"], np.array([[1000.0, 4], [200, 3], [210, 1]]))
    plot_reliability({"model": curve}, io.BytesIO())
    upper = drawn[0].axes[0]
    assert named_lines(upper)["model"].get_linestyle() == "None"
    np.testing.assert_allclose(ends_of(upper), curve.intervals, atol=1e-9)
    wide = np.ptp(ends_of(upper), axis=1)
    assert wide[1] > 0.5 > 0.06 > wide[0]
    (hollow,) = [line for line in upper.get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert hollow.get_xydata().tolist() == [[0.75, 0.25]]


def test_groups_by_frequency_have_a_tick_for_labels_without_points(drawn):
    curve = ReliabilityCurve(
        ["0", "1", "2-3", "4-7"], np.array([[400.0, 900, 0, 500], [100, 90, 0, 100], [0, 90, 0, 250]])
    )
    plot_reliability_by("frequency", {"model": curve}, io.BytesIO())
    upper, lower = drawn[0].axes
    assert (lower.get_xscale(), lower.get_xlabel()) == ("log", "training points of the label")
    assert [tick.get_text() for tick in lower.get_xticklabels()] == ["0", "1"]
    places = [lower.get_xticks()[0], 1, 28**0.5]
    shares = named_lines(upper)["model"].get_xydata()
    np.testing.assert_allclose(shares, np.stack([places, [0, 0.1, 0.5]], axis=1))
    assert places[0] < 1
    (probabilities,) = [line for line in upper.get_lines() if line.get_linestyle() == "--" and len(line.get_xdata())]
    np.testing.assert_array_equal(probabilities.get_ydata(), [np.nan, 0.1, np.nan, 0.2])
    (mark,) = [line for line in upper.get_lines() if line.get_marker() == "_"]
    assert mark.get_ydata().tolist() == [0.25]


def test_many_ranks_are_on_a_logarithmic_axis_with_all_entries(drawn):
    probabilities = np.sort(np.random.default_rng(0).random((30, 300)))[:, ::-1] ** 8
    truth = np.random.default_rng(1).random((30, 300)) < probabilities
    curve = reliability_by_rank(csr_array(probabilities), csr_array(truth), 300)
    plot_reliability_by("rank", {"a": curve, "b": curve}, io.BytesIO())
    upper, lower = drawn[0].axes
    assert (upper.get_xscale(), upper.get_yscale()) == ("log", "log")
    counts = named_lines(lower)["a"]
    assert counts.get_xdata()[:20].tolist() == list(range(1, 21))
    assert counts.get_ydata().sum() == 30 * 300
    # Shares of zero have arrows at the bottom.
    arrows = [line for line in upper.get_lines() if line.get_marker() == "v"]
    assert sum(len(line.get_xdata()) for line in arrows) >= (curve.frequency == 0)[:20].sum()
    assert (
        len({(line.get_color(), line.get_marker()) for name, line in named_lines(upper).items() if name in "ab"}) == 2
    )
    few = ReliabilityCurve(curve.names[:5], curve.sums[:, :5])
    plot_reliability_by("rank", {"model": few}, io.BytesIO())
    assert drawn[1].axes[1].get_xscale() == "linear"
    assert [tick.get_text() for tick in drawn[1].axes[1].get_xticklabels()] == ["1", "2", "3", "4", "5"]


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
    shown = [text.get_text().replace("\n", "") for text in legend.get_texts()]
    assert shown == ["calibrated", *names, "fewer than 50 entries"]
    box = legend.get_window_extent()
    assert box.y0 > upper.y1
    assert box.x1 < figure.bbox.x1
    assert len({line.get_color() for line in list(named_lines(figure.axes[0]).values())[1:-1]}) == len(names)
