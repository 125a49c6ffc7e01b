"""`xmlgp pack`: write a trained model as one file."""

from __future__ import annotations

import click

from xmlgp import api
from xmlgp.cli.help import Subcommand
from xmlgp.cli.options import NonEmptyPath, Note, quiet_option
from xmlgp.runtime.progress import Progress

__all__ = ["pack"]


@click.command(cls=Subcommand)
@click.argument("model", type=NonEmptyPath())
@click.argument("file", type=NonEmptyPath())
@click.option("--overwrite", is_flag=True, help="Replace FILE.")
@quiet_option
def pack(model: str, file: str, overwrite: bool, progress: Progress, note: Note) -> None:
    """Write the trained model in the folder MODEL as one zip file, FILE, to share it.

    All commands read FILE in the place of MODEL; learn, tune and train need a folder, as `unzip FILE -d FOLDER` makes
    it. FILE has what belongs to the model and its card, README.md: fill in its last section first. The same model has
    the same bytes in a file of the same name, which the card shows.

    \b
    Examples:
      xmlgp pack models/tickets tickets.zip
      xmlgp predict tickets.zip new-tickets.csv
    """
    packed = api.pack(model, file, overwrite=overwrite, progress=progress)
    note(f"{file}: {packed.size / 1e6:.1f} MB, and {packed.unpacked / 1e6:.1f} MB when it is unpacked")
    note(
        f"{file}: it contains {packed.rows}; see “What a model keeps of its training points” in the documentation of "
        "learning"
    )
    click.echo(file)
