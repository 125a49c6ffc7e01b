"""`xmlgp learn`: go on with a trained model."""

import click

from xmlgp import api
from xmlgp.cli.options import (
    INPUT,
    advice,
    check_standard_input,
    checkpoint_option,
    command_line,
    reading_options,
    threads_option,
)

__all__ = ["learn"]


@click.command()
@click.argument("model", type=click.Path(file_okay=False))
@click.argument("data", required=False, type=INPUT)
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
@reading_options
@threads_option
def learn(model, data, add_labels, corpus, **options):
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
    paths = [model, data] if data is not None else [model]
    with advice(command_line("learn", paths, corpus, {"--add-labels": add_labels}), data):
        api.learn(model, data, add_labels=add_labels, corpus=corpus, **options)
