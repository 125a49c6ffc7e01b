"""`xmlgp preprocess`: prepare a data set for training."""

import click

from xmlgp import api
from xmlgp.cli.cluster_options import cluster_options, work_of
from xmlgp.cli.corpus_options import corpus_arguments, corpus_options
from xmlgp.cli.options import OutputPath, cache_option, note, quiet_option, reporting, train_command
from xmlgp.cli.settings_options import settings_options

__all__ = ["preprocess"]


@click.command(short_help="Prepare a data set for training.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("model", type=OutputPath(file_okay=False))
@settings_options(preprocess_only=True)
@corpus_options
@cluster_options
@cache_option
@quiet_option
def preprocess(data, model, recipe, chosen, corpus, scheduler, workers, cache, quiet):
    """Preprocess DATA into the folder MODEL: weight the features, find the basis and the initial inducing inputs.

    DATA is a file in the format of the Extreme Classification Repository or, with one label, in libsvm format (also
    .gz, or - for standard input), or a folder with train.txt or one *.svm, or a corpus of text. `xmlgp train` continues
    from here with the same recipe, and preprocesses the data itself if needed. A model without inducing inputs needs
    the weights only.

    A model in MODEL, even a trained one, is replaced. An interrupted run in MODEL is kept.

    \b
    Example:
      xmlgp preprocess data/bibtex models/bibtex --recipe s-LINEAR
    """
    options = {"settings": chosen, "recipe": recipe, "corpus": corpus, "cache": cache}
    with work_of(scheduler, workers, quiet) as work:
        folder = api.preprocess(data, model, work=work, **options, **reporting(quiet))
    command = train_command(data, model, *corpus_arguments(corpus))
    note(f"{model}: {folder.stage}; continue with `{command}`", quiet)
