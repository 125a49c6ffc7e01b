"""`xmlgp plot`: figures of the objective of training and of the calibration of probabilities."""

from __future__ import annotations

import click
import numpy as np
from numpy.typing import NDArray

from xmlgp.cli.help import SubcommandGroup, option
from xmlgp.cli.options import (
    COLUMNS,
    INPUT,
    Decorator,
    NonEmptyPath,
    OptionValue,
    check_standard_input,
    label_count,
    reading_options,
    source_of,
)
from xmlgp.data.streams import check_outputs
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.metrics.probabilities import (
    ReliabilityCurve,
    calibration_statistics,
    reliability_by_frequency,
    reliability_by_rank,
    reliability_curve,
)
from xmlgp.metrics.ranking import top_entries
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.plots import Panel, Run, plot_objective, plot_reliability, plot_reliability_by
from xmlgp.runs.evaluate import check_probabilities, describe_coverage
from xmlgp.runs.matching import Matched, matched
from xmlgp.runtime.progress import Reporter

__all__ = ["plot"]


def _out_option(default: str) -> Decorator:
    return option(
        "-o",
        "--out",
        type=NonEmptyPath(dir_okay=False, allow_dash=True),
        default=default,
        show_default=True,
        group="Output",
        help="File to write, or - for standard output; its suffix (png, pdf, svg) chooses the format, PNG without one.",
    )


@click.group(cls=SubcommandGroup)
def plot() -> None:
    """Plot the training of models and the calibration of scores; needs Matplotlib (pip install 'xmlgp[plot]').

    \b
    Examples:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
      xmlgp plot reliability all.scores data/bibtex -o reliability.png
    """


@plot.command(short_help="Plot the bound or the log posterior against the epoch.")
@click.argument("models", nargs=-1, required=True, type=NonEmptyPath())
@_out_option("bound.png")
def bound(models: tuple[str, ...], out: str) -> None:
    """Plot the objective of training against the epoch: the bound of mlgpf and gpc, the log posterior of bmlpl.

    MODELS are model folders. The objectives of different kinds of models are not comparable, so each has its own panel.
    In a panel, a line joins values of the same quantity only: the epochs; the epochs with dense features; the sweeps
    over the labels, whose bound is another one; the burn-in and the samples of Gibbs sampling; and what the model
    learned later, on its own points.

    \b
    Example:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
    """
    check_outputs([out], models)
    panels: dict[str, Panel] = {}
    for model in models:
        folder = ModelFolder(model)
        if folder.stage != "trained":
            raise ModelFolderError(f"{model}: the model is {folder.stage}, but not trained yet")
        kind = folder.settings.model
        record = MODELS[kind]
        panel = panels.setdefault(kind, Panel(record.objective, {}, record.epoch))
        panel.runs[model] = Run(folder.description["history"], (), record.burn_in(folder.settings))
    plot_objective(panels, out)
    _print_path(out)


@plot.command(
    common=["-k", "--by", *COLUMNS, "--train", "--out", "--quiet"],
    short_help="Plot observed frequencies against probabilities.",
)
@click.argument("scores", nargs=-1, required=True, type=INPUT)
@click.argument("data", type=INPUT)
@option(
    "-k",
    "k",
    callback=label_count,
    metavar="K|ALL",
    group="Labels",
    help="Only the K labels of highest probability of each point.  [default: all listed]",
)
@option(
    "--by",
    type=click.Choice(("probability", "rank", "frequency")),
    default="probability",
    show_default=True,
    group="Labels",
    help="What entries are grouped by; frequency is the number of training points of the label.",
)
@option(
    "--train", type=INPUT, group="Data", help="Training data or a model, for --by frequency and the names of labels."
)
@_out_option("reliability.png")
@reading_options()
def reliability(  # noqa: PLR0913, which are the options of the command
    scores: tuple[str, ...],
    data: str,
    k: int | str | None,
    by: str,
    train: str | None,
    out: str,
    **reading: OptionValue,
) -> None:
    """Plot how often labels are true against their probabilities: a curve for each of the files SCORES.

    SCORES are files as `xmlgp predict` writes them, and DATA has the same points with their labels. Probabilities are
    calibrated where the points of the figure lie on the diagonal, or with --by where they meet the dashed line.

    \b
    Example:
      xmlgp predict models/tickets new.csv -k all -o all.jsonl
      xmlgp plot reliability all.jsonl new.csv -o reliability.png
      xmlgp plot reliability all.jsonl new.csv --by rank -o rank.png

    The entries of SCORES are binned by probability, in 15 bins of equal width; a bin is plotted at its mean probability
    and the share of its entries that are true in DATA. Upright lines are 95 % intervals of the shares, as if entries
    were independent. The lower panel shows the number of entries in each bin, the legend the log loss, in nats per
    entry, and the expected calibration error (ECE). SCORES and DATA may also be JSON Lines and a corpus, as for
    `xmlgp evaluate`. DATA may be a folder with test.txt or test.svm. Every file may be compressed, and one may be - for
    standard input.

    With --by rank the groups are the first label of each point, the second, and so on; with --by frequency labels with
    0, 1, 2 to 3, 4 to 7, ... training points in --train. A dashed line is their mean probability, and an arrow at the
    bottom a share of zero. `xmlgp evaluate --reliability` prints the same numbers.

    \b
    More examples:
      xmlgp predict models/bibtex data/bibtex -k all --output probability -o a.scores
      xmlgp predict models/bibtex-s data/bibtex -k all --output probability -o b.scores
      xmlgp plot reliability a.scores b.scores data/bibtex -o reliability.png
      xmlgp plot reliability a.scores data/bibtex --by frequency --train data/bibtex
    """
    check_standard_input(*scores, data, train)
    check_outputs([out], [*scores, data, train])
    if by == "frequency" and train is None:
        raise click.UsageError("--by frequency needs --train.")
    most = k if isinstance(k, int) else None
    source = source_of(data, reading)
    curves: dict[str, ReliabilityCurve] = {}
    for path, scored in zip(scores, matched(scores, source, train, Reporter(**reading)), strict=True):
        check_probabilities(scored.scores, path)
        counts = scored.with_counts(train, path).counts if by == "frequency" else None
        try:
            name, curve = _curve(path, scored, most or scored.scores.K, by, counts)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        # A k that no point exceeds leaves nothing out.
        is_complete = most is None or most >= np.diff(scored.scores.indptr).max(initial=0)
        coverage = f"the best {most} labels of each point"
        if is_complete:
            coverage = describe_coverage(scored.scores, scored.K)
        reading["note"](f"The curve of {path} is over {coverage}")
        curves[name] = curve
    if by == "probability":
        plot_reliability(curves, out)
    else:
        plot_reliability_by(by, curves, out)
    _print_path(out)


def _curve(
    path: str, scored: Matched, k: int, by: str, counts: NDArray[np.integer] | None
) -> tuple[str, ReliabilityCurve]:
    """Return the name of a file's curve in the legend, and the curve."""
    scores = scored.scores
    if by == "rank":
        return path, reliability_by_rank(scores.matrix, scored.labels, k)
    if counts is not None:
        return path, reliability_by_frequency(scores.matrix, scored.labels, k, counts)
    probabilities = top_entries(scores.matrix, k)
    loss, gap = (statistic.value for statistic in calibration_statistics(probabilities, scored.labels).values())
    return f"{path}: log loss {loss:.4f}, ECE {gap:.4f}", reliability_curve(probabilities, scored.labels)


def _print_path(out: str) -> None:
    """Print the path of the figure, unless the figure itself is on standard output."""
    if out != "-":
        click.echo(out)
