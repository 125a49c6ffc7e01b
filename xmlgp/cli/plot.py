"""`xmlgp plot`: draw what a training left behind, and how well probabilities are calibrated."""

import click

from xmlgp.cli.options import cache_option, note, quiet_option
from xmlgp.cli.probabilities import check_probabilities, what_is_listed
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.experiments.figures import draw_bounds, draw_reliability
from xmlgp.metrics.calibration import log_loss, reliability_curve
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runtime.progress import terminal_progress

__all__ = ["plot"]


def _out_option(default):
    return click.option(
        "-o",
        "--out",
        type=click.Path(dir_okay=False, allow_dash=True),
        default=default,
        show_default=True,
        help="File to write; its ending (png, pdf, svg) chooses the format; - for a PNG on standard output.",
    )


@click.group(short_help="Draw trainings and calibration.")
def plot():
    """Draw figures of models and their scores; needs Matplotlib (pip install 'xmlgp[plot]').

    \b
    Examples:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
      xmlgp plot reliability all.scores data/bibtex -o reliability.png
    """


@plot.command(short_help="The bound or the log posterior against the epoch.")
@click.argument("models", nargs=-1, required=True, type=click.Path())
@_out_option("bound.png")
def bound(models, out):
    """Draw the bound of the models in the folders MODELS against the epoch, or the log posterior of those of bmlpl.

    Those of different models are not to be compared: mlgpf, bmlpl and gpc have a panel each.

    \b
    Example:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
    """
    histories = {}
    for model in models:
        folder = ModelFolder(model)
        if folder.stage != "trained":
            raise ModelFolderError(f"{model}: the model is {folder.stage}, but not trained yet")
        histories.setdefault(folder.settings.model, {})[model] = folder.description["history"]
    _draw(draw_bounds, histories, out)


@plot.command(short_help="How often probabilities come true.")
@click.argument("scores", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.argument("data", type=click.Path(allow_dash=True))
@_out_option("reliability.png")
@cache_option
@quiet_option
def reliability(scores, data, out, cache, quiet):
    """Draw how often the probabilities in each of the files SCORES come true, by the true labels in DATA.

    The labels listed in SCORES fall into 15 bins of equal width by their probability; each bin is drawn at its mean
    probability and the share of it that is true, on the diagonal where the two agree. Below is how many there are in
    it. The legend has the log loss, in nats a label, and ECE, the expected calibration error. DATA may be a folder with
    test.txt or test.svm. Every file may be gzipped (.gz), and one be - for standard input.

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
        note(f"The curve of {path} is over {what_is_listed(read)}", quiet)
        curves[f"{path}: log loss {loss:.4f}, ECE {curve.error:.4f}"] = curve
    _draw(draw_reliability, curves, out)


def _draw(draw, lines, out):
    """Draw into a file and print its name, or to standard output."""
    if out == "-":
        with open_output(out) as stream:
            draw(lines, stream)
    else:
        draw(lines, out)
        click.echo(out)
