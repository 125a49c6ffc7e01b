"""`xmlgp learn`: go on with a trained model."""

import json

import click

from xmlgp import api
from xmlgp.api import Preview
from xmlgp.cli.help import Subcommand, option
from xmlgp.cli.options import (
    INPUT,
    NonEmptyPath,
    OptionValue,
    check_standard_input,
    checkpoint_option,
    dense_option,
    encoder_options,
    reading_options,
    resume_advice,
    source_of,
    threads_option,
    vocabulary_options,
)

__all__ = ["learn"]

#: New labels that are named.
SHOWN = 5

#: The options of --dry-run, which are those of `preview`.
PREVIEW = ("add_labels", "progress", "note")


@click.command(cls=Subcommand, common=["--add-labels", "--dry-run", "--force", "--resume", "--quiet"])
@click.argument("model", type=NonEmptyPath())
@click.argument("data", required=False, type=INPUT)
@option(
    "--add-labels",
    type=NonEmptyPath(),
    metavar="FILE",
    group="Labels",
    help="Add the labels in FILE to MODEL, one name a line; those that it has stay. A new label is ranked low until "
    "MODEL learns points with it.",
)
@option(
    "--dry-run",
    is_flag=True,
    group="Output",
    help="Print how many points, labels and words are new, and what share the model knows; change nothing.",
)
@option("--json", "as_json", is_flag=True, group="Output", help="Print the result of --dry-run as one JSON object.")
@option(
    "--force",
    is_flag=True,
    help="Learn points of whose words or labels MODEL knows less than a tenth, which are probably for another model.",
)
@option(
    "--resume/--no-resume",
    default=None,
    help="Resume the interrupted run in MODEL, or discard it. With neither, resume a run on the same points, and fail "
    "if there is one on other points.",
)
@vocabulary_options
@checkpoint_option
@dense_option
@reading_options(with_model=True)
@encoder_options(with_model=True)
@threads_option
def learn(model: str, data: str | None, dry_run: bool, as_json: bool, **options: OptionValue) -> None:
    """Go on with the trained model in the folder MODEL: learn the points of DATA, with what MODEL knows as the prior.

    DATA is what `xmlgp train` takes, with new points only. New words and labels of text are added. MODEL is replaced
    when all is learned, and stays as it was if anything fails.

    \b
    Examples:
      xmlgp learn models/tickets this-week.csv --dry-run
      xmlgp learn models/tickets this-week.csv
      xmlgp learn models/tickets --add-labels more-labels.txt

    Points that MODEL knows are not needed. DATA may have more features and labels than MODEL: the first ones are those
    of MODEL, by number, or by name where MODEL has names. Without DATA, --vocabulary names the labels of MODEL anew.

    A batch that MODEL has learned already, the same points in the same order, is not learned twice, so a command that
    was interrupted can be run again.

    \b
    More examples:
      xmlgp learn models/bibtex new-points.txt
      xmlgp learn models/theses --vocabulary yso.ttl --vocabulary-language fi
    """
    check_standard_input(data, options["add_labels"], options["vocabulary"])
    if as_json and not dry_run:
        raise click.UsageError("--json is for --dry-run.")
    source = source_of(data, options)
    if dry_run:
        preview = api.preview(model, source, **{name: options[name] for name in PREVIEW})
        (_print_json if as_json else _print_table)(preview)
        return
    with resume_advice(data):
        api.learn(model, source, **options)


def _print_json(preview: Preview) -> None:
    shares = {
        "known_labels": _share(preview.known_assignments, preview.assignments),
        "known_features": _share(preview.known_occurrences, preview.occurrences),
    }
    click.echo(json.dumps(preview._asdict() | shares, ensure_ascii=False))


def _print_table(preview: Preview) -> None:
    names = preview.label_names or []
    shown = ", ".join(names[:SHOWN] + (["…"] if len(names) > SHOWN else []))
    kind = "words" if preview.is_text else "features"
    rows = {
        "points": preview.points,
        "already learned": "yes" if preview.learned else "no",
        "new labels": f"{preview.new_labels}: {shown}" if names else preview.new_labels,
        f"new {kind}": preview.new_features,
        "known labels": _share_in_words(preview.known_assignments, preview.assignments, "assignments"),
        f"known {kind}": _share_in_words(preview.known_occurrences, preview.occurrences, "occurrences"),
    }
    for title, text in rows.items():
        click.echo(f"{title:15}  {text}")


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _share_in_words(count: int, total: int, noun: str) -> str:
    return f"{count / total:.1%} of {total} {noun}" if total else f"no {noun}"
