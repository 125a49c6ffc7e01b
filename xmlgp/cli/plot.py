"""`xmlgp plot`: figures of the objective of training and of the calibration of probabilities."""

from __future__ import annotations

import click
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.cli.options import INPUT, Decorator, NonEmptyPath, OptionValue, check_standard_input, reading_options
from xmlgp.data.streams import check_outputs
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.metrics.probabilities import (
    ReliabilityCurve,
    log_loss,
    reliability_by_frequency,
    reliability_by_rank,
    reliability_curve,
)
from xmlgp.metrics.ranking import top_entries
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.plots import Panel, plot_objective, plot_reliability, plot_reliability_by_group
from xmlgp.runs.evaluate import check_probabilities, describe_coverage
from xmlgp.runs.matching import matched

__all__ = ["plot"]

#: What the groups of `--by` are called.
XLABELS = {"rank": "rank of the label for its point", "frequency": "training points of the label"}


def _out_option(default: str) -> Decorator:
    return click.option(
        "-o",
        "--out",
        type=NonEmptyPath(dir_okay=False, allow_dash=True),
        default=default,
        show_default=True,
        help="File to write, or - for standard output; its suffix (png, pdf, svg) chooses the format, PNG without one.",
    )


@click.group()
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
        panel = panels.setdefault(kind, Panel(MODELS[kind].objective, {}))
        panel.histories[model] = folder.description["history"]
    plot_objective(panels, out)
    _print_name(out)


@plot.command(short_help="Plot observed frequencies against probabilities.")
@click.argument("scores", nargs=-1, required=True, type=INPUT)
@click.argument("data", type=INPUT)
@click.option(
    "--by",
    type=click.Choice(("probability", "rank", "frequency")),
    default="probability",
    show_default=True,
    help="What the entries are grouped by; frequency is the number of training points of the label.",
)
@click.option(
    "-k", "k", type=click.IntRange(1), help="Only the k labels of highest probability.  [default: all listed]"
)
@click.option("--train", type=INPUT, help="Training data or a model, for --by frequency and names.")
@_out_option("reliability.png")
@reading_options
def reliability(
    scores: tuple[str, ...], data: str, by: str, k: int | None, train: str | None, out: str, **reading: OptionValue
) -> None:
    """Plot how often labels are true against their probabilities: a curve for each of the files SCORES.

    The entries of SCORES are binned by probability, in 15 bins of equal width; a bin is plotted at its mean probability
    and the share of its entries that are true in DATA, which lies on the diagonal if probabilities are calibrated. The
    lower panel shows the number of entries in each bin, the legend the log loss, in nats per entry, and the expected
    calibration error (ECE). SCORES and DATA may also be JSON Lines and a corpus, as for
    `xmlgp evaluate`. DATA may be a folder with test.txt or test.svm. Every file may be compressed, and one
    may be - for standard input.

    With --by rank or --by frequency the plot has the mean probability (dashed) and the share of true entries (solid) of
    the labels of each rank, or of labels with 0, 1, 2 to 3, 4 to 7, ... training points.

    \b
    Example:
      xmlgp predict models/bibtex data/bibtex -k all --output probability -o bibtex.scores
      xmlgp predict models/bibtex-s data/bibtex -k all --output probability -o bibtex-s.scores
      xmlgp plot reliability bibtex.scores bibtex-s.scores data/bibtex -o reliability.png
      xmlgp plot reliability bibtex.scores data/bibtex --by rank -k 5 -o rank.png
    """
    check_standard_input(*scores, data, train)
    check_outputs([out], [*scores, data, train])
    if by == "frequency" and train is None:
        raise click.UsageError("--by frequency needs --train.")
    curves: dict[str, ReliabilityCurve] = {}
    for path, pair in zip(scores, matched(scores, data, train, **reading), strict=True):
        counts = pair.with_counts(train, path).counts if by == "frequency" else None
        check_probabilities(pair.scores, path)
        try:
            name, curve = _curve(path, top_entries(pair.scores.matrix, k or pair.scores.K), pair.labels, by, counts)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        is_complete = k is None or k >= np.diff(pair.scores.indptr).max(initial=0)
        coverage = describe_coverage(pair.scores, pair.K) if is_complete else f"the best {k} labels of each point"
        reading["note"](f"The curve of {path} is over {coverage}")
        curves[name] = curve
    if by == "probability":
        plot_reliability(curves, out)
    else:
        plot_reliability_by_group(curves, out, XLABELS[by])
    _print_name(out)


def _curve(
    path: str, probabilities: csr_array, labels: csr_array, by: str, counts: NDArray[np.integer] | None
) -> tuple[str, ReliabilityCurve]:
    """Return the name of a file's curve in the legend, and the `ReliabilityCurve`."""
    K = labels.shape[1]
    if by == "rank":
        return path, reliability_by_rank(probabilities, labels, K)
    if counts is not None:
        return path, reliability_by_frequency(probabilities, labels, K, counts)
    curve = reliability_curve(probabilities, labels)
    loss = log_loss(probabilities, labels)
    return f"{path}: log loss {loss:.4f}, ECE {curve.error:.4f}", curve


def _print_name(out: str) -> None:
    """Print the name of the figure, unless it is on standard output."""
    if out != "-":
        click.echo(out)
