"""`xmlgp learn`: new points join a model at once, or it is trained again on all of its points."""

import click

from xmlgp.api import learn as api
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

__all__ = ["learn"]


def _changes(context: click.Context, option: click.Parameter, changes: tuple[str, ...]) -> dict[str, str]:
    """Return the new names of labels by their earlier ones."""
    pairs = [change.partition("=") for change in changes]
    if not all(old and new for old, _, new in pairs):
        raise click.BadParameter("write OLD=NEW")
    return {old: new for old, _, new in pairs}


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.argument("data", required=False, type=INPUT)
@vocabulary_options
@dense_option
@reading_options
@threads_option
@click.option("--forget", is_flag=True, help="Take the documents with the words of those in DATA out of MODEL.")
@click.option(
    "--rename",
    metavar="OLD=NEW",
    multiple=True,
    callback=_changes,
    help="Give the label OLD the name NEW; if that is another label, both become one.",
)
@click.option("--retrain", is_flag=True, help="Train MODEL again on its points and those of DATA.")
def learn(model: str, data: str | None, **options: OptionValue) -> None:
    """Let the model in the folder MODEL learn the points of DATA, with new words and labels.

    DATA is what `xmlgp train` takes, with new points only. They join the index of training points at once, and nothing
    is trained. With --retrain, MODEL is trained again, with its settings, on all points, as if they had come at once;
    so are models without an index. A document replaces the one with the same words, so a correction is learned as any
    document. MODEL stays as it was if anything fails.

    \b
    Examples:
      xmlgp learn models/tickets this-week.csv
      xmlgp learn models/tickets --retrain
      xmlgp learn models/tickets --forget wrong.csv
      xmlgp learn models/tickets --rename "on call=standby"
      xmlgp learn models/theses --vocabulary yso.ttl --vocabulary-language fi

    DATA may have more features and labels than MODEL: the first ones are those of MODEL, by number, or by name where
    MODEL has names. Without DATA, --vocabulary names the labels of MODEL anew.

    The same DATA are not learned twice; an interrupted command resumes.
    """
    check_standard_input(data, options["vocabulary"])
    api.learn(model, source_of(data, options), **options)
