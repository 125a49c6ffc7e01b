"""Options that several subcommands share, each a decorator, so that they read the same everywhere."""

import click

__all__ = ["cache_option", "quiet_option", "seed_option"]

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes on standard error.")

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of everything random; the same seed gives the same result on the same machine.",
)

cache_option = click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Keep a parsed binary copy of text files in the user's cache folder and use it while the text is unchanged.",
)
