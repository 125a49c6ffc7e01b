"""Charts as SVG within a page: colours come from the page's classes, so that they follow its dark or light theme.

Each chart is narrow, so that its text stays readable on a phone, and has a title and a description for screen readers.
The style sheet forbids attributes of style; all geometry is in attributes of SVG.
"""

import math
from html import escape

__all__ = ["draw_frequencies", "draw_ranks", "draw_reliability"]

#: Width of a chart in its own units; on a phone a unit is about a pixel.
WIDTH = 400


def draw_frequencies(groups, frequency_of):
    """Return a chart of precision and recall of each group of labels (sequence of `Tally`), a pair of bars each."""
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


def draw_reliability(bins):
    """Return a chart of the share of true labels against the probability (sequence of `Bin`), beside the diagonal."""
    left = 64
    top = 34
    size = 310

    def position(probability, true):
        return f"{left + size * probability:.1f}", f"{top + size * (1 - true):.1f}"

    parts = [_legend(("line a", "this model"), ("line ideal", "perfect")), *_vertical_grid(left, size, top, top + size)]
    parts += _horizontal_grid(left, size, top, size, 1)
    parts.append(f'<line class="ideal" x1="{left}" y1="{top + size}" x2="{left + size}" y2="{top}"/>')
    points = [position(row.probability, row.true) for row in bins]
    parts.append(f'<polyline class="a" points="{" ".join(",".join(point) for point in points)}"/>')
    parts += [f'<circle class="a" cx="{x}" cy="{y}" r="4"/>' for x, y in points]
    parts.append(_text(left + size / 2, top + size + 38, "probability", "middle"))
    x = 14
    y = top + size / 2
    parts.append(_text(x, y, "share that is true", "middle", transform=f"rotate(-90 {x} {y})"))
    title = "Share of true labels against their probability"
    about = "A curve on the diagonal means that probabilities come true as often as they say"
    return _svg("reliability-chart", title, about, top + size + 46, parts)


def draw_ranks(ranks):
    """Return a chart of the mean probability and of the share of true labels of each rank (sequence of `Bin`)."""
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


def _svg(name, title, about, height, parts):
    """Return a chart; ids within it start with its name, which is unique in the page."""
    description = f"{about}; the table after the chart has the same figures."
    return (
        f'<svg role="img" aria-labelledby="{name}-title {name}-description" viewBox="0 0 {WIDTH} {height}">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
        f'<g aria-hidden="true">{"".join(parts)}</g></svg>'
    )


def _text(x, y, text, anchor, kind="", transform=""):
    of_kind = f' class="{kind}"' if kind else ""
    turned = f' transform="{transform}"' if transform else ""
    return f'<text{of_kind} x="{x}" y="{y}" text-anchor="{anchor}"{turned}>{escape(text)}</text>'


def _legend(*entries):
    """Return marks with their names, side by side at the top."""
    parts = []
    x = 52
    for kind, text in entries:
        shape, colour = kind.split()
        if shape == "square":
            parts.append(f'<rect class="{colour}" x="{x}" y="6" width="12" height="12" rx="2"/>')
        elif shape == "line":
            parts.append(f'<line class="{colour}" x1="{x - 4}" y1="12" x2="{x + 14}" y2="12"/>')
        else:
            of_ring = "ring " if shape == "ring" else ""
            parts.append(f'<circle class="{of_ring}{colour}" cx="{x + 6}" cy="12" r="5"/>')
        parts.append(_text(x + 19, 16, text, "start"))
        x += 46 + 7 * len(text)
    return "".join(parts)


def _vertical_grid(left, width, top, bottom):
    """Yield lines at each quarter, with their shares below."""
    for quarter in range(5):
        x = left + width * quarter / 4
        yield f'<line class="grid" x1="{x:g}" y1="{top}" x2="{x:g}" y2="{bottom}"/>'
        yield _text(f"{x:g}", bottom + 16, f"{25 * quarter} %", "middle", "small")


def _horizontal_grid(left, width, top, height, limit):
    """Yield lines at each quarter of the limit, with their shares on the left."""
    for quarter in range(5):
        y = top + height * (1 - quarter / 4)
        share = f"{100 * limit * quarter / 4:g} %"
        yield f'<line class="grid" x1="{left}" y1="{y:g}" x2="{left + width}" y2="{y:g}"/>'
        yield _text(left - 6, f"{y + 4:g}", share, "end", "small")
