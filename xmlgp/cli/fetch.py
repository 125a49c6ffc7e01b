"""`xmlgp fetch`: fetch a data set of the catalogue, or list the catalogue."""

from __future__ import annotations

import click

from xmlgp.cli.options import NonEmptyPath, Note, quiet_option
from xmlgp.data.catalogue import Catalogue, load_catalogue
from xmlgp.data.fetch import fetch as fetch_dataset
from xmlgp.runtime.progress import Progress

__all__ = ["fetch"]


@click.command()
@click.argument("name", required=False)
@click.option(
    "--into", type=NonEmptyPath(file_okay=False), default="data", show_default=True, help="Folder for data sets."
)
@click.option(
    "--mirror",
    metavar="DIR_OR_URL",
    help="Use a copy: a folder or URL with NAME/train.txt or NAME/train.txt.gz, and binary/FILE for binary data sets.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--list", "as_list", is_flag=True, help="Print the data sets of the catalogue.")
@click.option("--catalogue", type=NonEmptyPath(dir_okay=False), help="Use this catalogue instead of datasets.yaml.")
@quiet_option
def fetch(  # noqa: PLR0913, which are the options
    name: str | None,
    into: str,
    mirror: str | None,
    force: bool,
    as_list: bool,
    catalogue: str | None,
    progress: Progress,
    note: Note,
) -> None:
    """Fetch the data set NAME of the catalogue.

    Downloads the files into the folder data/NAME, verifies them and prints their paths. Existing files are verified and
    kept. The data sets tickets (texts) and toy (numbers) need no
    network.

    The environment variable XMLGP_CATALOGUE can also set the catalogue.

    \b
    Example:
      xmlgp fetch tickets
      xmlgp fetch bibtex --mirror /media/copies
      xmlgp fetch --list
    """
    if as_list == (name is not None):
        raise click.UsageError("Give either NAME or --list.")
    datasets = load_catalogue(catalogue)
    if name is None:
        _print_table(datasets)
        return
    fetched = fetch_dataset(datasets[name], into, mirror, force, progress)
    status = f"fetched ({fetched.origin})" if fetched.origin else "already present and verified"
    note(f"{datasets[name].name}: {status}")
    for path in fetched.paths:
        click.echo(path)


def _print_table(datasets: Catalogue) -> None:
    rows: list[tuple[str, ...]] = [("name", "N", "N_test", "D", "K", "from")]
    for entry in datasets.entries.values():
        shape = entry.shape
        # The whole name of a host would make lines longer than 80 characters.
        origin = ".".join((entry.origin or "only --mirror").split(".")[-2:])
        rows.append((entry.name, *map(str, (shape.N, shape.N_test, shape.D or "-", shape.K)), origin))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers, origin in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        click.echo(" ".join([name.ljust(widths[0]), *cells, "", origin]))
