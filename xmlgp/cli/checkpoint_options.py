"""The option of subcommands that write checkpoints."""

import click

from xmlgp.cli.options import check_finite
from xmlgp.runs.train import CHECKPOINT_SECONDS

__all__ = ["checkpoint_option"]

#: A year: more is a typing error.
MOST_MINUTES = 525_600

checkpoint_option = click.option(
    "--checkpoint-every",
    "minutes",
    type=click.FloatRange(0, MOST_MINUTES),
    callback=check_finite,
    default=CHECKPOINT_SECONDS / 60,
    show_default=True,
    metavar="MINUTES",
    help="Time between checkpoints within an epoch; there is also one at the end of each epoch, unless writing it "
    "takes more than a twentieth of the time. 0 for no checkpoints.",
)
