"""Charts as SVG within a page: colours come from the page's classes, so that they follow its dark or light theme.

Each chart is narrow, so that its text stays readable on a phone, and has a title and a description for screen readers.
The style sheet forbids attributes of style; all geometry is in attributes of SVG.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from xmlgp.metrics.intervals import FEW_POINTS, share_interval
from xmlgp.metrics.probabilities import Bin, ReliabilityCurve
from xmlgp.reporting.label_tables import Tally

__all__ = ["draw_frequencies", "draw_ranks", "draw_reliability", "draw_small_reliability"]

#: Width of a chart in its own units; on a phone a unit is about a pixel.
WIDTH = 400


def draw_frequencies(groups: Sequence[Tally], frequency_of: str) -> str:
    """Return a chart of precision and recall of each group of labels, a pair of bars each."""
    left = 84
    right = 48
    top = 34
    height = 36
    bottom = top + height * len(groups)
    scale = WIDTH - left - right
    parts = [_legend(("square a", "precision"), ("square b", "recall")), *_vertical_grid(left, scale, top, bottom)]
    for i, group in enumerate(groups):
        y = top + height * i + 4
        parts.append(_text(left - 8, y + 18, group.name, "end"))
        for j, value in enumerate((group.precision, group.recall)):
            middle = y + 14 * j + 7
            if value is None:
                parts.append(_text(left + 4, middle + 4, "–", "start", "small"))
                continue
            width = max(value * scale, 0.5)
            parts.append(
                f'<rect class="{"ab"[j]}" x="{left}" y="{middle - 6}" width="{width:.1f}" height="12" rx="2"/>'
            )
            parts.append(_text(f"{left + width + 4:.1f}", middle + 4, f"{100 * value:.0f} %", "start", "small"))
    title = f"Precision and recall by frequency of labels in {frequency_of}"
    return _svg("frequency-chart", title, "Two bars for each group of labels", bottom + 24, parts)


class Frame(NamedTuple):
    """The place of a plot in a chart; its axes are shares, from 0 to 1 and upwards from 0 to `limit`."""

    left: float
    top: float
    width: float
    height: float
    limit: float = 1.0

    @property
    def right(self) -> float:
        """The right end."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower end."""
        return self.top + self.height

    def x(self, share: float) -> float:
        """Return where a share is on the horizontal axis."""
        return self.left + self.width * share

    def y(self, share: float) -> float:
        """Return where a share is on the vertical axis."""
        return self.bottom - self.height * share / self.limit


def draw_reliability(curve: ReliabilityCurve) -> str:
    """Return a chart of the share of true labels by probability, with 95 % intervals, above the counts of the bins."""
    frame = Frame(left=66, top=62, width=312, height=230)
    strip = Frame(left=frame.left, top=frame.bottom + 14, width=frame.width, height=44)
    parts = [
        _legend(("circle a", "share that is true"), ("interval a", "95 % interval")),
        _legend(("circle a weak", f"fewer than {FEW_POINTS} labels"), ("dashes", "what is promised"), y=26),
        *_horizontal_grid(frame),
        *_reliability_points(curve.filled, frame),
        *_counts(curve, strip),
    ]
    for quarter in range(5):
        parts.append(_text(f"{strip.x(quarter / 4):g}", strip.bottom + 17, f"{25 * quarter} %", "middle", "small"))
    parts.append(_text(strip.left + strip.width / 2, strip.bottom + 37, "probability that the model gives", "middle"))
    title = "Share of true labels by the probability that the model gives, with 95 % intervals and numbers of labels"
    return _svg("reliability-chart", title, "A point, an interval and a bar for each bin", strip.bottom + 45, parts)


def draw_small_reliability(bins: Iterable[Bin]) -> str:
    """Return the points of `draw_reliability` alone, a picture for those who see it."""
    frame = Frame(left=6, top=6, width=188, height=78)
    sides = f'<rect class="frame" x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}"/>'
    marks = "".join(_reliability_points(bins, frame, 3.5))
    return f'<svg class="picture" aria-hidden="true" viewBox="0 0 200 90">{sides}{marks}</svg>'


def draw_ranks(ranks: Sequence[Bin]) -> str:
    """Return a chart of the mean probability and of the share of true labels of each rank, with 95 % intervals."""
    highest = max([0.1, *(value for row in ranks for value in (row.probability, row.true))])
    # A multiple of 20 %, so that its quarters are round.
    limit = math.ceil(5 * highest) / 5
    frame = Frame(left=66, top=62, width=312, height=288, limit=limit)
    step = frame.width / max(len(ranks), 1)
    parts = [
        _legend(("circle a", "share that is true"), ("interval a", "95 % interval")),
        _legend(("circle ring b", "mean probability"), y=26),
        *_horizontal_grid(frame),
    ]
    for i, row in enumerate(ranks):
        x = frame.left + step * (i + 0.5)
        parts.append(_interval(row, x, frame, "a"))
        parts.append(f'<circle class="a" cx="{x:.1f}" cy="{frame.y(row.true):.1f}" r="5"/>')
        parts.append(f'<circle class="ring b" cx="{x:.1f}" cy="{frame.y(row.probability):.1f}" r="7"/>')
        parts.append(_text(f"{x:.1f}", frame.bottom + 17, row.bin, "middle", "small"))
    parts.append(_text(frame.left + frame.width / 2, frame.bottom + 37, "place of the suggestion", "middle"))
    title = "Mean probability and share of true labels by the place of the suggestion, with 95 % intervals"
    return _svg("rank-chart", title, "Two marks and an interval for each place", frame.bottom + 45, parts)


def _counts(curve: ReliabilityCurve, frame: Frame) -> Iterator[str]:
    """Yield bars whose heights are the logarithms of the numbers of labels in the bins."""
    total = len(curve.names)
    most = max(curve.count.tolist(), default=1)
    for position, row in zip(np.flatnonzero(curve.count).tolist(), curve.filled, strict=True):
        height = frame.height * math.log(row.count + 1) / math.log(most + 1)
        kind = "a weak" if row.count < FEW_POINTS else "a"
        yield (
            f'<rect class="{kind}" x="{frame.x(position / total) + 1:.1f}" y="{frame.bottom - height:.1f}" '
            f'width="{frame.width / total - 2:.1f}" height="{height:.1f}">{_about(row)}</rect>'
        )
    yield f'<line class="grid" x1="{frame.left}" y1="{frame.bottom}" x2="{frame.right}" y2="{frame.bottom}"/>'
    for y, text in ((10, f"{most:,}"), (27, "labels,"), (41, "log scale")):
        yield _text(frame.left - 6, frame.top + y, text, "end", "small")


def _reliability_points(bins: Iterable[Bin], frame: Frame, radius: float = 5) -> Iterator[str]:
    """Yield the diagonal, and a point with its interval for each bin; those of few labels are hollow and dashed."""
    yield f'<line class="dashes" x1="{frame.left}" y1="{frame.bottom}" x2="{frame.right}" y2="{frame.top}"/>'
    for row in bins:
        kind = "a weak" if row.count < FEW_POINTS else "a"
        x = frame.x(row.probability)
        mark = f'<circle class="{kind}" cx="{x:.1f}" cy="{frame.y(row.true):.1f}" r="{radius}"/>'
        yield f"<g>{_about(row)}{_interval(row, x, frame, kind)}{mark}</g>"


def _interval(row: Bin, x: float, frame: Frame, kind: str) -> str:
    """Return the interval of the share that is true, a line."""
    low, high = share_interval(row.true, row.count)
    # A rank's chart ends at a round share above the highest value, which an interval may exceed.
    high = min(high, frame.limit)
    return f'<line class="{kind}" x1="{x:.1f}" y1="{frame.y(low):.1f}" x2="{x:.1f}" y2="{frame.y(high):.1f}"/>'


def _about(row: Bin) -> str:
    """Return what a browser shows of a bin under the pointer."""
    low, high = share_interval(row.true, row.count)
    interval = f"95 % interval {100 * low:.1f} to {100 * high:.1f} %"
    return f"<title>{row.bin}: {100 * row.true:.1f} % of {row.count:,} are true ({interval})</title>"


def _svg(name: str, title: str, about: str, height: float, parts: Iterable[str]) -> str:
    """Return a chart; ids within it start with its name, which is unique in the page."""
    description = f"{about}; the table after the chart has the same figures."
    return (
        f'<svg role="img" aria-labelledby="{name}-title {name}-description" viewBox="0 0 {WIDTH} {height:g}">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
        f'<g aria-hidden="true">{"".join(parts)}</g></svg>'
    )


def _text(x: float | str, y: float | str, text: str, anchor: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(*entries: tuple[str, str], y: float = 6) -> str:
    """Return marks with their names, side by side; the class of a mark starts with its shape."""
    parts = []
    x = 66
    for kind, text in entries:
        shape, _, colour = kind.partition(" ")
        if shape == "square":
            parts.append(f'<rect class="{colour}" x="{x}" y="{y}" width="12" height="12" rx="2"/>')
        elif shape == "circle":
            parts.append(f'<circle class="{colour}" cx="{x + 6}" cy="{y + 6}" r="5"/>')
        elif shape == "interval":
            parts.append(f'<line class="{colour}" x1="{x + 6}" y1="{y - 1}" x2="{x + 6}" y2="{y + 13}"/>')
        else:
            parts.append(f'<line class="{shape}" x1="{x - 4}" y1="{y + 10}" x2="{x + 14}" y2="{y + 2}"/>')
        parts.append(_text(x + 19, y + 10, text, "start"))
        x += 46 + 7 * len(text)
    return "".join(parts)


def _vertical_grid(left: int, width: int, top: int, bottom: int) -> Iterator[str]:
    """Yield lines at each quarter, with their shares below."""
    for quarter in range(5):
        x = left + width * quarter / 4
        yield f'<line class="grid" x1="{x:g}" y1="{top}" x2="{x:g}" y2="{bottom}"/>'
        yield _text(f"{x:g}", bottom + 16, f"{25 * quarter} %", "middle", "small")


def _horizontal_grid(frame: Frame) -> Iterator[str]:
    """Yield lines at each quarter of the limit, with their shares on the left."""
    for quarter in range(5):
        share = frame.limit * quarter / 4
        y = frame.y(share)
        yield f'<line class="grid" x1="{frame.left}" y1="{y:g}" x2="{frame.right}" y2="{y:g}"/>'
        yield _text(frame.left - 6, f"{y + 4:g}", f"{100 * share:g} %", "end", "small")
