"""`xmlgp preprocess`: prepare a data set for training."""

import click

from xmlgp.cli.options import SettingsCommand, cache_option, note, quiet_option, recipe_option, settings_options
from xmlgp.cli.usual_model import with_usual_model
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.recipes import resolve
from xmlgp.runs.build import preprocess_model
from xmlgp.runtime.progress import terminal_progress

__all__ = ["preprocess"]


@click.command(cls=SettingsCommand, short_help="Prepare a data set for training.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("model", type=click.Path(file_okay=False))
@recipe_option
@settings_options(preprocess_only=True)
@cache_option
@quiet_option
def preprocess(data, model, recipe, chosen, cache, quiet):
    """Weigh the features of DATA, find the subspace and the start of the inducing inputs, into the folder MODEL.

    DATA is a file in the repository's text format or, with one label, in libsvm's (also .gz, or - for standard input),
    or a folder with train.txt or one *.svm. `xmlgp train` goes on from here with the recipe given here; it preprocesses
    by itself where that was not done. A model without inducing inputs needs the weights alone.

    Of data in libsvm's format the model is gpc, unless --model or --recipe says otherwise.

    \b
    Example:
      xmlgp preprocess data/bibtex models/bibtex --recipe s-LINEAR
    """
    progress = terminal_progress(quiet)
    dataset, format_ = read_dataset(locate(data, "train"), cache, progress)
    shape = (dataset.N, dataset.D, dataset.K)
    settings, _ = resolve(load_catalogue(), recipe, shape, with_usual_model(chosen, recipe, format_, data, quiet))
    folder = preprocess_model(dataset, model, settings, progress)
    note(f"{model}: {folder.stage}; `xmlgp train {data} {model}` goes on", quiet)
