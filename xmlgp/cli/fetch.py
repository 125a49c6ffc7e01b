"""`xmlgp fetch`: fetch a data set of the catalogue, or list the catalogue."""

from __future__ import annotations

import click

from xmlgp.cli.options import NonEmptyPath, quiet_option
from xmlgp.data.catalogue import Catalogue, load_catalogue
from xmlgp.data.fetch import fetch as fetch_dataset
from xmlgp.runtime.progress import Reporter

__all__ = ["fetch"]


@click.command()
@click.argument("name", required=False)
@click.option(
    "--into", type=NonEmptyPath(file_okay=False), default="data", show_default=True, help="Folder for data sets."
)
@click.option(
    "--mirror",
    type=NonEmptyPath(file_okay=False),
    help="Use a folder with NAME/train.txt or NAME/train.txt.gz, and binary/FILE for binary data sets.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--list", "as_list", is_flag=True, help="Print the data sets of the catalogue.")
@quiet_option
def fetch(name: str | None, into: str, mirror: str | None, force: bool, as_list: bool, reporter: Reporter) -> None:
    """Fetch the data set NAME of the catalogue.

    Downloads the files into the folder data/NAME, verifies them and prints their paths. Existing files are verified and
    kept. The data sets tickets (texts) and toy (numbers) need no network.

    The environment variable XMLGP_CATALOGUE names another catalogue than the one of the package.

    \b
    Examples:
      xmlgp fetch tickets
      xmlgp fetch bibtex --mirror /media/copies
      xmlgp fetch --list
    """
    if as_list == (name is not None):
        raise click.UsageError("Give either NAME or --list.")
    datasets = load_catalogue()
    if name is None:
        _print_table(datasets)
        return
    with reporter.progress("fetch"):
        fetched = fetch_dataset(datasets[name], into, mirror, force)
    status = f"fetched ({fetched.origin})" if fetched.origin else "already present and verified"
    reporter.note(f"{datasets[name].name}: {status}")
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
