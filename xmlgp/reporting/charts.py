"""Charts as SVG within a page: colours come from the page's classes, so that they follow its dark or light theme.

Each chart is narrow, so that its text stays readable on a phone, and has a title and a description for screen readers.
The style sheet forbids attributes of style; all geometry is in attributes of SVG.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from xmlgp.metrics.probabilities import Bin
from xmlgp.reporting.label_tables import Tally

__all__ = ["draw_frequencies", "draw_ranks"]

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


def draw_ranks(ranks: Sequence[Bin]) -> str:
    """Return a chart of the mean probability and of the share of true labels of each rank."""
    left = 52
    top = 34
    width = 330
    height = 240
    highest = max([0.1, *(value for row in ranks for value in (row.probability, row.true))])
    # A multiple of 20 %, so that its quarters are round.
    limit = math.ceil(5 * highest) / 5
    step = width / max(len(ranks), 1)
    parts = [_legend(("circle a", "share that is true"), ("ring b", "mean probability"))]
    parts += _horizontal_grid(left, width, top, height, limit)
    for i, row in enumerate(ranks):
        x = f"{left + step * (i + 0.5):.1f}"
        true, probability = (f"{top + height * (1 - value / limit):.1f}" for value in (row.true, row.probability))
        parts.append(f'<line class="gap" x1="{x}" y1="{true}" x2="{x}" y2="{probability}"/>')
        parts.append(f'<circle class="a" cx="{x}" cy="{true}" r="5"/>')
        parts.append(f'<circle class="ring b" cx="{x}" cy="{probability}" r="6"/>')
        parts.append(_text(x, top + height + 18, row.bin, "middle", "small"))
    parts.append(_text(left + width / 2, top + height + 38, "place of the suggestion", "middle"))
    title = "Mean probability and share of true labels by the place of the suggestion"
    return _svg("rank-chart", title, "Two marks for each place", top + height + 46, parts)


def _svg(name: str, title: str, about: str, height: int, parts: Iterable[str]) -> str:
    """Return a chart; ids within it start with its name, which is unique in the page."""
    description = f"{about}; the table after the chart has the same figures."
    return (
        f'<svg role="img" aria-labelledby="{name}-title {name}-description" viewBox="0 0 {WIDTH} {height}">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
        f'<g aria-hidden="true">{"".join(parts)}</g></svg>'
    )


def _text(x: float | str, y: float | str, text: str, anchor: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(*entries: tuple[str, str]) -> str:
    """Return marks with their names, side by side at the top."""
    parts = []
    x = 52
    for kind, text in entries:
        shape, colour = kind.split()
        if shape == "square":
            parts.append(f'<rect class="{colour}" x="{x}" y="6" width="12" height="12" rx="2"/>')
        else:
            ring = "ring " if shape == "ring" else ""
            parts.append(f'<circle class="{ring}{colour}" cx="{x + 6}" cy="12" r="5"/>')
        parts.append(_text(x + 19, 16, text, "start"))
        x += 46 + 7 * len(text)
    return "".join(parts)


def _vertical_grid(left: int, width: int, top: int, bottom: int) -> Iterator[str]:
    """Yield lines at each quarter, with their shares below."""
    for quarter in range(5):
        x = left + width * quarter / 4
        yield f'<line class="grid" x1="{x:g}" y1="{top}" x2="{x:g}" y2="{bottom}"/>'
        yield _text(f"{x:g}", bottom + 16, f"{25 * quarter} %", "middle", "small")


def _horizontal_grid(left: int, width: int, top: int, height: int, limit: float) -> Iterator[str]:
    """Yield lines at each quarter of the limit, with their shares on the left."""
    for quarter in range(5):
        y = top + height * (1 - quarter / 4)
        share = f"{100 * limit * quarter / 4:g} %"
        yield f'<line class="grid" x1="{left}" y1="{y:g}" x2="{left + width}" y2="{y:g}"/>'
        yield _text(left - 6, f"{y + 4:g}", share, "end", "small")
