"""The tables of experiments as lines of Markdown, and the panels of their figures.

Tables have the rows of `collect`: the papers' numbers, ours, and the difference. Panels have rows of a method, a
variant in words, and its results.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import linregress

from benchmarks.papers.cells import training_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "PRECISIONS",
    "Panel",
    "Rows",
    "Styles",
    "accuracy_table",
    "auc_table",
    "draw_accuracy",
    "draw_bars",
    "draw_interval",
    "draw_lines",
    "draw_race",
    "draw_share",
    "finish_panels",
    "minutes_table",
    "panels_in_a_row",
    "precision_table",
    "restarts_table",
    "seconds_until_settled",
    "share_table",
    "topics_table",
    "training_table",
]

#: The rows of `collect`, by name of the column.
Rows: TypeAlias = Sequence[Mapping[str, Any]]

#: The rows of a panel: a method, a variant in words, and the results of its restarts.
Panel: TypeAlias = Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]]

#: The line styles of methods, as keyword arguments of Matplotlib.
Styles: TypeAlias = Mapping[str, Mapping[str, Any]]

PRECISIONS = ("P@1", "P@3", "P@5")

#: The seconds of the bound and of its KL terms.
TIMES = ("bound_s", "kl_s")

#: The measures of [L] besides precision.
FURTHER_MEASURES = ("nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")

#: Percentage points: a method has arrived when its accuracy stays this close to the best.
NEAR = 0.5

#: Width and height of a panel in inches.
PANEL_SIZE = (4.2, 3.4)

#: Markers that distinguish curves where they overlap.
MARKERS = "osD^vPX"

#: Ratio of the seconds of two successive markers of a curve, approximately.
MARKER_SPACING = 1.6


def precision_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of precision in %, and of the seconds of the bound and of its KL terms.

    Ours is the mean over seeds, with its standard deviation if there are several.
    """
    columns = [f"{name} paper / ours / difference" for name in PRECISIONS]
    yield from _head("data set", "method", "seeds", *columns, "bound s", "KL s")
    for row in rows:
        theirs = row["paper"] if isinstance(row["paper"], dict) else {"p": row["paper"]}
        paper = theirs.get("p")
        cells = []
        for i, name in enumerate(PRECISIONS):
            measure = row["measures"][name]
            ours = _spread(measure.values(), 2)
            cells.append(f"{paper[i]:.2f} / {ours} / {measure['mean'] - paper[i]:+.2f}" if paper else f"— / {ours} / —")
        times = [f"{theirs[key]} / {row[key]:.4f}" if key in theirs else f"{row[key]:.4f}" for key in TIMES]
        yield _line(row["dataset"], row["method"], row["restarts"], *cells, *times)
    for dataset, method, paper in _published(rows):
        if isinstance(paper, list):
            yield _line(dataset, method, "", *(f"{value:.2f} / — / —" for value in paper), "", "")


def _published(rows: Rows) -> Iterator[tuple[str, str, Any]]:
    """Yield data set, method and the paper's numbers of the methods that have no row of their own."""
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        published = next(row["others"] for row in rows if row["dataset"] == dataset)
        ran = {row["method"] for row in rows if row["dataset"] == dataset}
        for method, paper in published.items():
            if method not in ran:
                yield dataset, f"{method} (published)", paper


def minutes_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of minutes per epoch."""
    yield from _head("data set", "method", "minutes per epoch, paper", "ours", "times faster")
    for row in rows:
        ours = row["minutes_an_epoch"]
        paper = row["paper"]
        faster = f"{paper / ours:.0f}" if paper else "—"
        yield _line(row["dataset"], row["method"], paper or "—", f"{ours:.4f}", faster)


def auc_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of AUC, precision in % and seconds."""
    averages = ("AUC_instance", "AUC_micro", "AUC_macro")
    yield from _head("data set", "method", "seeds", "topics", "AUC, paper", *averages, *PRECISIONS, "seconds")
    for row in rows:
        paper = "—" if row["paper"] is None else f"{row['paper']:.4f}"
        measures = row["measures"]
        areas = (_spread(measures[name].values(), 4) for name in averages)
        precisions = (_spread(measures[name].values(), 2) for name in PRECISIONS)
        ours = *areas, *precisions, f"{row['seconds']:.1f}"
        yield _line(row["dataset"], row["method"], row["restarts"], row["topics"], paper, *ours)
    for dataset, method, paper in _published(rows):
        yield _line(dataset, method, "", "", f"{paper:.4f}", *[""] * 7)


def topics_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of topics with their shares in the positive labels and their labels with weights."""
    yield from _head("data set", "method", "topic", "share %", "labels of highest weight")
    for row in rows:
        for topic in row["labels_of_topics"]:
            labels = (f"{name} {weight:.3f}" for name, weight in zip(topic["labels"], topic["weights"], strict=True))
            yield _line(row["dataset"], row["method"], topic["topic"], f"{topic['share']:.2%}"[:-1], ", ".join(labels))


def share_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of seconds by share of the positive labels, and the straight line through them."""
    yield from _head("data set", "method", "share of the positive labels", "topics", "seconds", "AUC_instance")
    for row in rows:
        area = row["measures"]["AUC_instance"]["mean"]
        share = f"{row['settings']['revealed']:.0%}"
        yield _line(row["dataset"], row["method"], share, row["topics"], f"{row['training_s']:.2f}", f"{area:.4f}")
    if len(rows) > 1:
        fit = linregress([row["settings"]["revealed"] for row in rows], [row["training_s"] for row in rows])
        yield ""
        line = f"{fit.intercept:.2f} + {fit.slope:.2f} × share"
        yield f"Seconds = {line}, which explains {fit.rvalue**2:.1%} of the variance."


def accuracy_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of final accuracies and of the time to near-best accuracy, then the learning rates."""
    arrived = f"seconds to within {NEAR} of the best"
    yield from _head("data set", "method", "accuracy %", "log loss", "bound", arrived, "seconds", "iterations", "ended")
    best: dict[str, float] = {}
    for row in rows:
        best[row["dataset"]] = max(best.get(row["dataset"], 0), row["measures"]["accuracy"]["mean"])
    for row in rows:
        last = row["history"][-1]
        settled = seconds_until_settled(row["history"], best[row["dataset"]] - NEAR)
        cells = [f"{last['accuracy']:.2f}", f"{last['log_loss']:.4f}", f"{last['bound']:.1f}"]
        cells += ["—" if settled is None else f"{settled:.3g}", f"{last['seconds']:.3g}", f"{last['epoch']:.4g}"]
        yield _line(row["dataset"], row["method"], *cells, row["ended"])
    for row in rows:
        if row["pilots"]:
            tried = ", ".join(
                f"{pilot['learning_rate']:g}: {pilot['bound']:.1f}"
                if "bound" in pilot
                else f"{pilot['learning_rate']:g}: {pilot['ended']}"
                for pilot in row["pilots"]
            )
            chosen = row["settings"]["learning_rate"]
            batch_size = row["settings"]["batch_size"]
            yield ""
            yield (
                f"{row['dataset']}, {row['method']}: minibatches of {batch_size}; learning rate {chosen:g}, which had "
                f"the highest bound after a quarter of the time ({tried})."
            )


def restarts_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of means ± standard deviations over restarts."""
    names = (*PRECISIONS, *FURTHER_MEASURES)
    yield from _head("data set", "method", "", "restarts", *names, "bound")
    for row in rows:
        cells = [_spread(row["measures"][name].values(), 2) for name in names]
        bound = (np.mean(row["bound"]), np.std(row["bound"], ddof=min(1, len(row["bound"]) - 1)))
        yield _line(row["dataset"], row["method"], row["variant"], row["restarts"], *cells, _spread(bound, 0))
    for dataset, method, published in _published(rows):
        measures = {name: iter(values) for name, values in published.items() if name != "hours"}
        yield _line(dataset, method, "", "", *(f"{next(measures[name.split('@')[0]]):.2f}" for name in names), "")


def training_table(rows: Rows) -> Iterator[str]:
    """Yield the lines of a table of the minutes of training: the least of all restarts, and their mean."""
    yield from _head("data set", "method", "restarts", "epochs", "minutes per epoch", "minutes", "mean of all restarts")
    for row in rows:
        epochs = row["settings"]["epochs"]
        minutes = row["training_s"] / 60
        mean = row["seconds"] / 60 / row["restarts"]
        times = f"{minutes / epochs:.4f}", f"{minutes:.2f}", f"{mean:.2f}"
        yield _line(row["dataset"], row["method"], row["restarts"], epochs, *times)
    for dataset, method, published in _published(rows):
        if hours := published.get("hours"):
            yield _line(dataset, method, "", "", "", f"{60 * hours:.0f}", "")


def _spread(mean_and_std: Iterable[float], digits: int) -> str:
    mean, std = mean_and_std
    return f"{mean:.{digits}f} ± {std:.{digits}f}" if std else f"{mean:.{digits}f}"


def _head(*names: str) -> tuple[str, str]:
    return _line(*names), _line(*["---"] * len(names))


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def seconds_until_settled(history: Sequence[Mapping[str, float]], least: float) -> float | None:
    """Return the seconds from which on every accuracy of a history is at least `least`, or None."""
    settled = None
    for moment in reversed(history):
        if moment["accuracy"] < least:
            break
        settled = moment["seconds"]
    return settled


def panels_in_a_row(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, side by side."""
    # Tables need no Matplotlib.
    from matplotlib.figure import Figure

    width, height = PANEL_SIZE
    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def finish_panels(axes: Sequence[Axes], titles: Sequence[str], ylabel: str = "") -> None:
    """Add a title and a legend to each panel, and the label of the vertical axis to the first."""
    for axis, title in zip(axes, titles, strict=True):
        # The default size is too wide for a title that lists the sizes of a data set.
        axis.set_title(title, fontsize="medium")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
            axis.set_xlabel(axis.get_xlabel() or "epoch")
    if ylabel:
        axes[0].set_ylabel(ylabel)


def _plot_line(axis: Axes, x: ArrayLike, y: ArrayLike, label: str, style: Mapping[str, Any]) -> Line2D:
    """Plot a line with a name and keyword arguments of `Axes.plot`; a single point gets a marker, to be visible."""
    marker = "o" if np.size(x) == 1 else None
    (line,) = axis.plot(x, y, **{"label": label, "marker": marker, **style})
    return line


def draw_lines(axis: Axes, rows: Panel, styles: Styles, series: str, value: str) -> None:
    """Draw the values of a series of each row, `history` or `curve`, against the epoch.

    With several restarts the line is their mean, in a band from the least to the greatest value.
    """
    for method, variant, results in rows:
        epochs = [point["epoch"] for point in results[0][series]]
        values = np.array([[point[value] for point in result[series]] for result in results])
        line = _plot_line(axis, epochs, values.mean(axis=0), f"{method} {variant}".strip(), styles.get(method, {}))
        if len(values) > 1:
            axis.fill_between(
                epochs, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.2, linewidth=0
            )
    axis.set_xlabel("epoch")


def draw_bars(axis: Axes, rows: Panel, styles: Styles) -> None:
    """Draw P@1 of each row as a bar, and its bound as a diamond."""
    names = [variant or method for method, variant, _ in rows]
    axis.bar(names, [results[0]["measures"]["P@1"] for *_, results in rows], color="tab:blue", width=0.6)
    axis.set_ylabel("P@1 in % (bars)")
    right = axis.twinx()
    right.plot(names, [results[0]["history"][-1]["bound"] for *_, results in rows], "D", color="tab:red")
    right.set_ylabel("lower bound (diamonds)")
    axis.tick_params(axis="x", labelrotation=20)


def draw_interval(axis: Axes, rows: Panel, styles: Styles) -> None:
    """Draw the mean bound of restarts against the epoch, with its 95% interval."""
    for *_, results in rows:
        bounds = np.array([[epoch["bound"] for epoch in result["history"]] for result in results])
        epochs = np.arange(1, bounds.shape[1] + 1)
        mean = bounds.mean(axis=0)
        half = 1.96 * bounds.std(axis=0, ddof=min(1, len(bounds) - 1)) / np.sqrt(len(bounds))
        axis.fill_between(epochs, mean - half, mean + half, color="cyan", label="95% interval")
        axis.plot(epochs, mean, color="black", label=f"mean of {len(bounds)}")
    axis.set_xlabel("epoch")


def draw_share(axis: Axes, rows: Panel, styles: Styles) -> None:
    """Draw the seconds of training against the share of positive labels, and the straight line through them."""
    shares = [results[0]["settings"]["revealed"] for *_, results in rows]
    seconds = [training_seconds(results) for *_, results in rows]
    axis.plot(shares, seconds, "o", color="tab:blue", label="xmlgp")
    if len(shares) > 1:
        fit = linregress(shares, seconds)
        ends = np.array([0, max(shares)])
        label = f"{fit.intercept:.2f} + {fit.slope:.2f} × share, R² {fit.rvalue**2:.3f}"
        axis.plot(ends, fit.intercept + fit.slope * ends, "--", color="gray", linewidth=1, label=label)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("share of the positive labels")


def draw_race(axis: Axes, rows: Panel, styles: Styles) -> None:
    """Draw AUC of each row against the seconds of training."""
    curves = [(f"{method} {variant}".strip(), method, results[0]["curve"]) for method, variant, results in rows]
    # There can be a hundred points, too many for a marker each.
    _draw_over_time(axis, curves, styles, "AUC_instance", lambda seconds: {"markevery": 0.1})


def draw_accuracy(axis: Axes, rows: Panel, styles: Styles) -> None:
    """Draw the accuracy of each row against the seconds of training."""

    def even(seconds: Sequence[float]) -> dict[str, Any]:
        # Markers at even distances on the logarithmic axis, and one at the last point.
        _, marked = np.unique(np.log(seconds) // np.log(MARKER_SPACING), return_index=True)
        return {"markevery": sorted({*marked.tolist(), len(seconds) - 1}), "linewidth": 1.2}

    histories = [(method, method, results[0]["history"]) for method, _, results in rows]
    _draw_over_time(axis, histories, styles, "accuracy", even)


def _draw_over_time(
    axis: Axes,
    curves: Iterable[tuple[str, str, Sequence[Mapping[str, float]]]],
    styles: Styles,
    measure: str,
    markers: Callable[[Sequence[float]], dict[str, Any]],
) -> None:
    for (label, method, curve), marker in zip(curves, itertools.cycle(MARKERS), strict=False):
        seconds = [point["seconds"] for point in curve]
        values = [point[measure] for point in curve]
        style = {"marker": marker, "markersize": 4} | markers(seconds) | styles.get(method, {})
        axis.plot(seconds, values, label=label, **style)
    axis.set_xscale("log")
    axis.set_xlabel("seconds of training")
