"""`xmlgp train`: train a model."""

import click

from xmlgp import api
from xmlgp.cli.checkpoint_options import checkpoint_option
from xmlgp.cli.cluster_options import cluster_arguments, cluster_options, work_of
from xmlgp.cli.corpus_options import corpus_arguments, corpus_options
from xmlgp.cli.options import OutputPath, advise, cache_option, quiet_option, reporting, train_command
from xmlgp.cli.settings_options import settings_options
from xmlgp.runtime.interrupts import Interrupted

__all__ = ["train"]


@click.command(short_help="Train a model.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("model", type=OutputPath(file_okay=False))
@settings_options()
@click.option(
    "--resume/--no-resume",
    default=None,
    help="Resume the interrupted run in MODEL with its settings, or discard it and start a new one. With neither, "
    "resume a run of the same data and settings, and fail if another run of a minute or more would be discarded.",
)
@checkpoint_option
@cluster_options
@corpus_options
@cache_option
@quiet_option
def train(
    data, model, recipe, chosen, resume, minutes, scheduler, workers, corpus, cache, quiet
):  # fmt: skip
    """Train a model on DATA and write it to the folder MODEL.

    DATA is a file in the format of the Extreme Classification Repository or, with one label, in libsvm format (also
    .gz, or - for standard input), or a folder with train.txt or one *.svm. Or it is a corpus of text as for `xmlgp
    vectorize`. MODEL keeps the names of labels and features, and a model of text predicts from text.

    Where MODEL holds the result of `xmlgp preprocess` on the same data, training continues from there with its
    settings. An interrupted run continues from its last checkpoint with --resume, and ends in the same model.

    \b
    Examples:
      xmlgp train data/bibtex models/bibtex
      xmlgp train data/bibtex models/bibtex --resume
      xmlgp train data/bibtex models/bibtex-s --recipe s-LINEAR --epochs 20
      xmlgp train data/bibtex models/bibtex-se --kernel se+linear --set ard=false -P 159 -M 200
    """
    try:
        with work_of(scheduler, workers, quiet) as work:
            api.train(
                data,
                model,
                settings=chosen,
                recipe=recipe,
                resume=resume,
                checkpoint_seconds=60 * minutes,
                corpus=corpus,
                cache=cache,
                work=work,
                **reporting(quiet),
            )
    except Interrupted as error:
        options = *corpus_arguments(corpus), *cluster_arguments(scheduler, workers)
        advise(error, train_command(data, model, *options, "--resume"), data)
        raise
