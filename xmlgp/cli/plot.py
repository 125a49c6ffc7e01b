"""`xmlgp plot`: draw what a training left behind."""

import sys

import click

from xmlgp.errors import ModelFolderError
from xmlgp.experiments.figures import draw_bounds
from xmlgp.models.folder import ModelFolder

__all__ = ["plot"]


@click.group(short_help="Draw training histories.")
def plot():
    """Draw figures of models; needs Matplotlib (pip install 'xmlgp[plot]').

    \b
    Example:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
    """


@plot.command(short_help="The bound against the epoch.")
@click.argument("models", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="bound.png",
    show_default=True,
    help="File to write; its ending (png, pdf, svg) chooses the format; - for a PNG on standard output.",
)
def bound(models, out):
    """Draw the bound of the models in the folders MODELS against the epoch.

    \b
    Example:
      xmlgp plot bound models/bibtex models/bibtex-s -o bound.png
    """
    histories = {}
    for model in models:
        folder = ModelFolder(model)
        if folder.stage != "trained":
            raise ModelFolderError(f"{model}: the model is {folder.stage}, but not trained yet")
        histories[model] = folder.description["history"]
    if out == "-":
        draw_bounds(histories, sys.stdout.buffer)
    else:
        draw_bounds(histories, out)
        click.echo(out)
