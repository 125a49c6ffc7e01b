"""`xmlgp plot`: figures of the objective of training and of the calibration of probabilities."""

import click

from xmlgp.cli.options import OutputPath, cache_option, note, quiet_option
from xmlgp.cli.probabilities import check_probabilities, describe_coverage
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.metrics.calibration import log_loss, reliability_curve
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.plots.objective import Panel, plot_objective
from xmlgp.plots.reliability import plot_reliability
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runtime.progress import terminal_progress

__all__ = ["plot"]


def _out_option(default):
    return click.option(
        "-o",
        "--out",
        type=OutputPath(dir_okay=False, allow_dash=True),
        default=default,
        show_default=True,
        help="File to write, or - for standard output; its suffix (png, pdf, svg) chooses the format, PNG without one.",
    )


@click.group(short_help="Plot training and calibration.")
def plot():
    """Plot the training of models and the calibration of scores; needs Matplotlib (pip install 'xmlgp[plot]').

    \b
    Examples:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
      xmlgp plot reliability all.scores data/bibtex -o reliability.png
    """


@plot.command(short_help="Plot the bound or the log posterior against the epoch.")
@click.argument("models", nargs=-1, required=True, type=click.Path())
@_out_option("bound.png")
def bound(models, out):
    """Plot the objective of training against the epoch: the bound of mlgpf and gpc, the log posterior of bmlpl.

    MODELS are model folders. The objectives of different kinds of models are not comparable, so each has its own panel.

    \b
    Example:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
    """
    panels = {}
    for model in models:
        folder = ModelFolder(model)
        if folder.stage != "trained":
            raise ModelFolderError(f"{model}: the model is {folder.stage}, but not trained yet")
        kind = folder.settings.model
        panel = panels.setdefault(kind, Panel(MODELS[kind].objective, {}))
        panel.histories[model] = folder.description["history"]
    _write(plot_objective, panels, out)


@plot.command(short_help="Plot observed frequencies against probabilities.")
@click.argument("scores", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.argument("data", type=click.Path(allow_dash=True))
@_out_option("reliability.png")
@cache_option
@quiet_option
def reliability(scores, data, out, cache, quiet):
    """Plot how often labels are true against their probabilities: a curve for each of the files SCORES.

    The entries of SCORES are binned by probability, in 15 bins of equal width; a bin is plotted at its mean probability
    and the share of its entries that are true in DATA, which lies on the diagonal if probabilities are calibrated. The
    lower panel shows the number of entries in each bin, the legend the log loss, in nats per entry, and the expected
    calibration error (ECE). DATA may be a folder with test.txt or test.svm. Every file may be gzipped (.gz), and one
    may be - for standard input.

    \b
    Example:
      xmlgp predict models/bibtex data/bibtex -k all --output probability -o bibtex.scores
      xmlgp predict models/bibtex-s data/bibtex -k all --output probability -o bibtex-s.scores
      xmlgp plot reliability bibtex.scores bibtex-s.scores data/bibtex -o reliability.png
    """
    if [*scores, data].count("-") > 1:
        raise click.UsageError("Only one of SCORES and DATA can be standard input.")
    progress = terminal_progress(quiet)
    dataset, _ = read_dataset(locate(data, "test"), cache, progress)
    curves = {}
    for path in scores:
        read = read_scores(path, progress)
        check_probabilities(read, path)
        try:
            curve, loss = reliability_curve(read.matrix, dataset.labels), log_loss(read.matrix, dataset.labels)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
        note(f"The curve of {path} is over {describe_coverage(read)}", quiet)
        curves[f"{path}: log loss {loss:.4f}, ECE {curve.error:.4f}"] = curve
    _write(plot_reliability, curves, out)


def _write(plot, content, out):
    """Plot into a file and print its name, or to standard output."""
    if out == "-":
        with open_output(out) as stream:
            plot(content, stream)
    else:
        plot(content, out)
        click.echo(out)
