"""`xmlgp learn`: train a model again, on the points that it keeps and new ones."""

import click

from xmlgp.cli.options import (
    INPUT,
    NonEmptyPath,
    OptionValue,
    check_standard_input,
    dense_option,
    reading_options,
    source_of,
    threads_option,
    vocabulary_options,
)
from xmlgp.runs import learn as runs

__all__ = ["learn"]


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.argument("data", required=False, type=INPUT)
@vocabulary_options
@dense_option
@reading_options(with_model=True)
@threads_option
def learn(model: str, data: str | None, **options: OptionValue) -> None:
    """Train the model in the folder MODEL again, with its settings, on the points that it keeps and those of DATA.

    DATA is what `xmlgp train` takes, with new points only. New words and labels of text are added. MODEL is replaced
    when it is trained, and stays as it was if anything fails. The result is that of training on all points at once.

    \b
    Examples:
      xmlgp learn models/tickets this-week.csv
      xmlgp learn models/bibtex new-points.txt
      xmlgp learn models/theses --vocabulary yso.ttl --vocabulary-language fi

    DATA may have more features and labels than MODEL: the first ones are those of MODEL, by number, or by name where
    MODEL has names. Without DATA, --vocabulary names the labels of MODEL anew.

    The same DATA are not learned twice, so a command that was interrupted can be run again, and resumes.
    """
    check_standard_input(data, options["vocabulary"])
    runs.learn(model, source_of(data, options), **options)
