"""`xmlgp learn`: go on with a trained model."""

import click

from xmlgp import api
from xmlgp.cli.checkpoint_options import checkpoint_option
from xmlgp.cli.corpus_options import corpus_arguments, corpus_options
from xmlgp.cli.options import advise, cache_option, check_standard_input, learn_command, quiet_option, reporting
from xmlgp.runtime.interrupts import Interrupted

__all__ = ["learn"]


@click.command(short_help="Go on with a trained model.")
@click.argument("model", type=click.Path(file_okay=False))
@click.argument("data", required=False, type=click.Path(allow_dash=True))
@click.option(
    "--add-labels",
    type=click.Path(),
    metavar="FILE",
    help="Add labels to MODEL, whose names FILE has, one a line; those that it has stay. Without points new ones are "
    "ranked low.",
)
@click.option(
    "--resume/--no-resume",
    default=None,
    help="Resume the interrupted run in MODEL, or discard it. With neither, resume a run of the same points, and fail "
    "if another run of a minute or more would be discarded.",
)
@checkpoint_option
@corpus_options
@cache_option
@quiet_option
def learn(model, data, add_labels, resume, minutes, corpus, cache, quiet):
    """Go on with the trained model in the folder MODEL: learn the points of DATA, with what MODEL knows as the prior.

    DATA is what `xmlgp train` takes, with new points only; points that MODEL knows are not needed. It may have more
    features and labels than MODEL: the first ones are those of MODEL, by number, or by name where MODEL has names. New
    words and labels of text are added.

    MODEL is replaced when all is learned, and stays as it was if anything fails. A batch that it has learned already,
    the same points in the same order, is not learned twice, so a command that was interrupted can be run again.

    \b
    Examples:
      xmlgp learn models/bibtex new-points.txt
      xmlgp learn models/tickets this-week.csv
      xmlgp learn models/tickets --add-labels more-labels.txt
    """
    check_standard_input(data, add_labels)
    try:
        api.learn(
            model,
            data,
            add_labels=add_labels,
            resume=resume,
            checkpoint_seconds=60 * minutes,
            corpus=corpus,
            cache=cache,
            **reporting(quiet),
        )
    except Interrupted as error:
        options = [*corpus_arguments(corpus), *(["--add-labels", add_labels] if add_labels else [])]
        advise(error, learn_command(model, data, *options), data)
        raise
