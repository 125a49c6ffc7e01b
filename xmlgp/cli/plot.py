"""`xmlgp plot`: figures of the objective of training and of the calibration of probabilities."""

from __future__ import annotations

import click
import numpy as np

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
from xmlgp.metrics.probabilities import ReliabilityCurve, calibration_statistics, reliability_curve
from xmlgp.metrics.ranking import top_entries
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.plots import Panel, plot_objective, plot_reliability
from xmlgp.runs.evaluate import check_probabilities, describe_coverage
from xmlgp.runs.matching import matched
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
    _print_path(out)


@plot.command(
    common=["-k", *COLUMNS, "--train", "--out", "--quiet"],
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
@option("--train", type=INPUT, group="Data", help="Training data or a model, for the names of labels.")
@_out_option("reliability.png")
@reading_options
def reliability(
    scores: tuple[str, ...], data: str, k: int | str | None, train: str | None, out: str, **reading: OptionValue
) -> None:
    """Plot how often labels are true against their probabilities: a curve for each of the files SCORES.

    SCORES are files as `xmlgp predict` writes them, and DATA has the same points with their labels. Probabilities are
    calibrated where the curve lies on the diagonal. `xmlgp evaluate --reliability` prints the same by the rank of
    labels and by the number of their training points.

    \b
    Example:
      xmlgp predict models/tickets new.csv -k all -o all.jsonl
      xmlgp plot reliability all.jsonl new.csv -o reliability.png

    The entries of SCORES are binned by probability, in 15 bins of equal width; a bin is plotted at its mean probability
    and the share of its entries that are true in DATA. The lower panel shows the number of entries in each bin, the
    legend the log loss, in nats per entry, and the expected calibration error (ECE). SCORES and DATA may also be JSON
    Lines and a corpus, as for `xmlgp evaluate`. DATA may be a folder with test.txt or test.svm. Every file may be
    compressed, and one may be - for standard input.

    \b
    More examples:
      xmlgp predict models/bibtex data/bibtex -k all --output probability -o a.scores
      xmlgp predict models/bibtex-s data/bibtex -k all --output probability -o b.scores
      xmlgp plot reliability a.scores b.scores data/bibtex -o reliability.png
    """
    check_standard_input(*scores, data, train)
    check_outputs([out], [*scores, data, train])
    most = k if isinstance(k, int) else None
    source = source_of(data, reading)
    curves: dict[str, ReliabilityCurve] = {}
    for path, scored in zip(scores, matched(scores, source, train, Reporter(**reading)), strict=True):
        check_probabilities(scored.scores, path)
        probabilities = top_entries(scored.scores.matrix, most or scored.scores.K)
        try:
            curve = reliability_curve(probabilities, scored.labels)
            calibration = calibration_statistics(probabilities, scored.labels)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        # A k that no point exceeds leaves nothing out.
        is_complete = most is None or most >= np.diff(scored.scores.indptr).max(initial=0)
        coverage = f"the best {most} labels of each point"
        if is_complete:
            coverage = describe_coverage(scored.scores, scored.K)
        reading["note"](f"The curve of {path} is over {coverage}")
        loss, gap = (statistic.value for statistic in calibration.values())
        curves[f"{path}: log loss {loss:.4f}, ECE {gap:.4f}"] = curve
    plot_reliability(curves, out)
    _print_path(out)


def _print_path(out: str) -> None:
    """Print the path of the figure, unless the figure itself is on standard output."""
    if out != "-":
        click.echo(out)
