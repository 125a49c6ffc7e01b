"""The command `python -m benchmarks.papers`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks.papers.catalogue import PARTIAL, Experiment, PapersCatalogue, load_experiment, load_papers
from benchmarks.papers.cells import read_results, run_cells
from benchmarks.papers.report import write_report
from xmlgp.runtime.errors import SettingsError, XmlgpError

__all__ = ["reproduce"]

#: The name that stands for all experiments.
ALL = "all"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path), default="data", show_default=True, help="Folder of data sets.")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default="results",
    metavar="DIR",
    show_default=True,
    help="Folder of results; cells that have a result in it are not run again. With --epochs-scale, or data "
    "that are not those of the catalogue, DIR/partial.",
)
@click.option("--datasets", default="", help="Only these data sets, such as 'bibtex delicious'.  [default: all]")
@click.option(
    "--epochs-scale",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Factor of all numbers of epochs, or of the training time where that is fixed, to try an experiment quickly.",
)
@click.option("--list", "as_list", is_flag=True, help="Print the experiments of the catalogue.")
def reproduce(  # noqa: PLR0913, which are the options
    names: tuple[str, ...], data: Path, results: Path, datasets: str, epochs_scale: float, as_list: bool
) -> None:
    """Run the experiments NAMES of the catalogue, or `all`, and print their tables, the papers' numbers next to ours.

    Writes DIR/NAME.md, and for figures DIR/NAME.png. They have all results in DIR, also those of other data sets from
    earlier runs. An interrupted experiment continues with its unfinished cells. Data sets whose files are missing are
    skipped with a message. Kept results are printed and not trained again; `--results again` trains them in a folder of
    their own.

    With --epochs-scale, or data that are not those of the catalogue, it is not the experiment of the paper: the table
    says so, and all is written to DIR/partial. If nothing can be run, nothing is written.

    \b
    Example:
      python -m benchmarks.papers table2 figure1 --datasets bibtex --epochs-scale 0.1
    """
    catalogue = load_papers()
    if as_list:
        width = max(map(len, catalogue.experiments)) + 2
        for name, spec in catalogue.experiments.items():
            click.echo(f"{name:{width}}{spec['title']}")
        return
    if not names:
        raise click.UsageError(f"Name an experiment, or {ALL}; --list prints them.")
    try:
        only = [catalogue[name].name for name in datasets.replace(",", " ").split()]
        chosen = _names(catalogue, only) if ALL in names else dict.fromkeys(names)
        experiments = [load_experiment(catalogue, name, data, only, epochs_scale) for name in chosen]
        if epochs_scale != 1 or any(experiment.other_sizes for experiment in experiments):
            results = results / PARTIAL
        _run(catalogue, experiments, data, results)
    except XmlgpError as error:
        raise click.ClickException(str(error)) from None


def _names(catalogue: PapersCatalogue, only: Sequence[str]) -> list[str]:
    """Return the names of the experiments that have some of the data sets, or of all."""
    names = [
        name for name, spec in catalogue.experiments.items() if not only or set(only).intersection(spec["datasets"])
    ]
    if not names:
        raise SettingsError(f"no experiment has {' or '.join(only)}")
    return names


def _run(catalogue: PapersCatalogue, experiments: Sequence[Experiment], data: Path, folder: Path) -> None:
    """Run the cells without results, and write and print the reports."""

    def note(text: str) -> None:
        click.echo(text, err=True)

    finished = read_results(folder)
    shown = [experiment for experiment in experiments if experiment.cells or experiment.finished_rows(finished)]
    if not shown:
        raise SettingsError(_absent(catalogue, experiments, data))
    for text in _notes(catalogue, experiments, data, folder):
        note(text)
    run_cells([cell for experiment in shown for cell in experiment.cells], folder, note)
    for experiment in shown:
        click.echo(write_report(experiment, catalogue.entries, folder))


def _notes(catalogue: PapersCatalogue, experiments: Sequence[Experiment], data: Path, folder: Path) -> Iterator[str]:
    """Yield what a user should know before experiments run: missing data, other data, and kept results."""
    if any(experiment.missing for experiment in experiments):
        yield _absent(catalogue, experiments, data)
    other = {dataset: sizes for experiment in experiments for dataset, sizes in experiment.other_sizes.items()}
    for dataset, sizes in other.items():
        yield f"{dataset} in {data} is not that of the catalogue: {sizes}; its results are kept in {folder}"
    finished = read_results(folder)
    cells = {cell.name for experiment in experiments for *_, of_row in experiment.rows for cell in of_row}
    if count := len(cells.intersection(finished)):
        yield f"{count} of {len(cells)} cells have results in {folder} and are not trained again"


def _absent(catalogue: PapersCatalogue, experiments: Sequence[Experiment], data: Path) -> str:
    """Return which data sets are missing, and what to do."""
    missing = list(dict.fromkeys(dataset for experiment in experiments for dataset in experiment.missing))
    downloadable = [dataset for dataset in missing if catalogue[dataset].source]
    made = [dataset for dataset in missing if not catalogue[dataset].source]
    texts = []
    if downloadable:
        texts.append(f"{', '.join(downloadable)}; `xmlgp fetch NAME --into {data}` downloads them")
    if made:
        texts.append(f"{', '.join(made)}; `make binary-sets SOURCE=FOLDER` makes them of their published files")
    return f"not in {data}: {'; '.join(texts)}"
