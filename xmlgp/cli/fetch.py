"""`xmlgp fetch`: put a data set of the catalogue on the disk, or list the catalogue."""

import click

from xmlgp.cli.options import note, quiet_option
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.fetch import fetch as fetch_dataset
from xmlgp.runtime.progress import terminal_progress

__all__ = ["fetch"]


@click.command()
@click.argument("name", required=False)
@click.option("--into", type=click.Path(file_okay=False), default="data", show_default=True, help="Folder of the sets.")
@click.option(
    "--mirror",
    metavar="DIR_OR_URL",
    help="Take the files from a copy, laid out as NAME/train.txt or NAME/train.txt.gz, binary sets as binary/FILE.",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option("--list", "as_list", is_flag=True, help="Print the data sets of the catalogue.")
@click.option("--catalogue", type=click.Path(dir_okay=False), help="Another catalogue than xmlgp's datasets.yaml.")
@quiet_option
def fetch(name, into, mirror, force, as_list, catalogue, quiet):
    """Fetch the data set NAME of the catalogue.

    Puts its files into the folder data/NAME, verified, and prints their paths. What is there already is verified and
    left alone. A download that breaks off stays in data/.partial, if the server can resume it, and the next call goes
    on from there. The data set toy needs no network.

    The environment variable XMLGP_CATALOGUE names another catalogue, too.

    \b
    Example:
      xmlgp fetch toy
      xmlgp fetch bibtex --mirror /media/copies
      xmlgp fetch --list
    """
    if as_list == (name is not None):
        raise click.UsageError("Give either NAME or --list.")
    datasets = load_catalogue(catalogue)
    if as_list:
        _print_table(datasets)
        return
    fetched = fetch_dataset(datasets[name], into, mirror, force, progress=terminal_progress(quiet))
    done = f"fetched ({fetched.origin})" if fetched.origin else "there already, and as the catalogue says"
    note(f"{datasets[name].name}: {done}", quiet)
    for path in fetched.paths:
        click.echo(path)


def _print_table(datasets):
    rows = [("name", "N", "N_test", "D", "K", "from")]
    for entry in datasets.entries.values():
        shape = entry.shape
        origin = ", ".join(source.origin for source in entry.sources) or "a copy (--mirror)"
        rows.append((entry.name, *map(str, (shape.N, shape.N_test, shape.D, shape.K)), origin))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers, origin in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        click.echo("  ".join([name.ljust(widths[0]), *cells, origin]))
