"""`xmlgp train`: train a model."""

import click

from xmlgp.cli.options import cache_option, note, quiet_option, recipe_option, settings_options
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.locate import locate
from xmlgp.data.repository_format import read_dataset
from xmlgp.models.build import open_preprocessed, train_model
from xmlgp.progress import terminal_progress
from xmlgp.recipes import DEFAULT_RECIPE, resolve
from xmlgp.settings import Settings

__all__ = ["train"]


@click.command(short_help="Train a model.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("model", type=click.Path(file_okay=False))
@recipe_option
@settings_options()
@cache_option
@quiet_option
def train(data, model, recipe, chosen, cache, quiet):
    """Train a model of DATA into the folder MODEL.

    DATA is a file in the repository's text format (also .gz, or - for standard input) or a folder with train.txt.
    Where MODEL holds the result of `xmlgp preprocess` on the same data, training goes on from there with its settings.

    \b
    Examples:
      xmlgp train data/bibtex models/bibtex
      xmlgp train data/bibtex models/bibtex-s --recipe s-LINEAR --epochs 20
      xmlgp train data/bibtex models/bibtex-se --kernel se+linear --no-ard -P 159 -M 200
    """
    progress = terminal_progress(quiet)
    dataset = read_dataset(locate(data, "train"), cache, progress)
    folder = None if recipe else open_preprocessed(model, dataset)
    if folder is not None and folder.stage == "preprocessed":
        settings = Settings.from_mapping(vars(folder.settings) | chosen, model)
    else:
        shape = (dataset.N, dataset.D, dataset.K)
        settings, entry = resolve(load_catalogue(), recipe or DEFAULT_RECIPE, shape, chosen)
        if entry is not None and recipe:
            note(f"recipe {recipe} with its settings for {entry.name}", quiet)
    folder = train_model(dataset, model, settings, progress)
    last = folder.description["history"][-1]
    epochs = f"{last['epoch']} epoch{'s' * (last['epoch'] > 1)}"
    note(f"{model}: trained, {epochs} in {last['seconds']:.1f} s, bound {last['bound']:.6g}", quiet)
    validation = folder.description["validation"]
    if validation and settings.refit:
        ranked = f"nDCG@5 of held-out points was {validation[last['epoch'] - 1]['ndcg@5']:.2f} after as many epochs"
        note(f"{model}: {ranked}, the best of {len(validation)}", quiet)
    elif validation:
        note(f"{model}: the parameters are those of the epoch that ranked held-out points best", quiet)
    if "parameters.regression.weights" in folder.description["arrays"]:
        note(f"{model}: utilities are pooled with those of regression on all points", quiet)
