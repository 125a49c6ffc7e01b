"""The objective against the epoch, and the formats of figure files."""

import io

import pytest

from xmlgp.errors import XmlgpError
from xmlgp.plots import Panel, plot_objective

HISTORY = [{"epoch": 1, "bound": -3.0}, {"epoch": 2, "bound": -2.5}]
PANELS = {"mlgpf": Panel("bound", {"model": HISTORY})}


def test_panels_have_titles_and_do_not_overlap(drawn):
    topics = [{"epoch": 1, "log_posterior": -900.0}, {"epoch": 2, "log_posterior": -700.0}]
    both = {"long": HISTORY, "short": HISTORY[:1]}
    plot_objective({"bmlpl": Panel("log_posterior", {"topics": topics}), "mlgpf": Panel("bound", both)}, io.BytesIO())
    left, right = drawn[0].axes
    assert [axis.get_title() for axis in (left, right)] == ["bmlpl", "mlgpf"]
    assert [axis.get_ylabel() for axis in (left, right)] == ["log posterior", "lower bound"]
    assert [axis.get_xlabel() for axis in (left, right)] == ["epoch"] * 2
    assert [line.get_xydata().tolist() for line in left.get_lines()] == [[[1, -900], [2, -700]]]
    assert [line.get_xydata().tolist() for line in right.get_lines()] == [[[1, -3], [2, -2.5]], [[1, -3]]]
    assert [line.get_label() for line in right.get_lines()] == ["long", "short"]
    # A line of one point would be invisible without a marker.
    assert [line.get_marker() for line in right.get_lines()] == ["None", "o"]
    assert not left.get_window_extent().overlaps(right.yaxis.get_label().get_window_extent())
    plot_objective(PANELS, io.BytesIO())
    assert drawn[1].axes[0].get_title() == ""


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml"), ("a", b"\x89PNG")]
)
def test_the_suffix_chooses_the_format_png_without_one(tmp_path, name, start):
    plot_objective(PANELS, str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start)


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(XmlgpError, match=r"a\.txt: figures are written as png, pdf or svg, not as txt"):
        plot_objective(PANELS, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
