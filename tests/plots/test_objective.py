"""The objective against the epoch, and the formats of figure files."""

import io
import itertools

import pytest

from xmlgp.errors import XmlgpError
from xmlgp.plots import Panel, plot_objective

HISTORY = [{"epoch": 1, "bound": -3.0}, {"epoch": 2, "bound": -2.5}]
PANELS = {"mlgpf": Panel("bound", {"model": HISTORY})}


def test_objectives_are_plotted_against_the_epoch(drawn):
    shorter = HISTORY[:1]
    plot_objective({"mlgpf": Panel("bound", {"long": HISTORY, "short": shorter})}, io.BytesIO())
    (axis,) = drawn[0].axes
    assert [line.get_label() for line in axis.get_lines()] == ["long", "short"]
    assert [line.get_xydata().tolist() for line in axis.get_lines()] == [[[1, -3], [2, -2.5]], [[1, -3]]]
    # A line of one point would be invisible without a marker.
    assert [line.get_marker() for line in axis.get_lines()] == ["None", "o"]
    assert (axis.get_title(), axis.get_xlabel(), axis.get_ylabel()) == ("", "epoch", "lower bound")


def test_panels_have_titles_and_do_not_overlap(drawn):
    topics = [{"epoch": 1, "log_posterior": -900.0}, {"epoch": 2, "log_posterior": -700.0}]
    classes = [{"epoch": 1, "bound": -9.0}, {"epoch": 2, "bound": -8.5}]
    panels = {"bmlpl": Panel("log_posterior", {"topics": topics})} | PANELS | {"gpc": Panel("bound", {"gpc": classes})}
    plot_objective(panels, io.BytesIO())
    axes = drawn[0].axes
    assert [axis.get_title() for axis in axes] == ["bmlpl", "mlgpf", "gpc"]
    assert [axis.get_ylabel() for axis in axes] == ["log posterior", "lower bound", "lower bound"]
    assert [axis.get_xlabel() for axis in axes] == ["epoch"] * 3
    assert [[line.get_ydata().tolist() for line in axis.get_lines()] for axis in axes] == [
        [[-900, -700]],
        [[-3, -2.5]],
        [[-9, -8.5]],
    ]
    for axis, right in itertools.pairwise(axes):
        assert not axis.get_window_extent().overlaps(right.yaxis.get_label().get_window_extent())


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml"), ("a", b"\x89PNG")]
)
def test_the_suffix_chooses_the_format_png_without_one(tmp_path, name, start):
    plot_objective(PANELS, str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_stream_gets_a_png():
    stream = io.BytesIO()
    plot_objective(PANELS, stream)
    assert stream.getvalue().startswith(b"\x89PNG")


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(XmlgpError, match=r"a\.txt: figures are written as png, pdf or svg, not as txt"):
        plot_objective(PANELS, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
