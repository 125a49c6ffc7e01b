"""The command `python -m benchmarks.papers`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from benchmarks.papers.catalogue import PARTIAL, Experiment, load_experiment, load_papers
from benchmarks.papers.cells import run_cells
from benchmarks.papers.report import write_report
from xmlgp.cli import CONTEXT_SETTINGS, Command
from xmlgp.cli.options import NonEmptyPath, check_finite, quiet_option, threads_option
from xmlgp.errors import SettingsError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import Progress

__all__ = ["reproduce"]


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("names", nargs=-1)
@click.option(
    "--data", type=NonEmptyPath(path_type=Path), default="data", show_default=True, help="Folder of data sets."
)
@click.option(
    "--results",
    type=NonEmptyPath(file_okay=False, path_type=Path),
    default="results",
    metavar="DIR",
    show_default=True,
    help="Folder of results; cells that have a result in it are not run again. With --epochs-scale, or data "
    "that are not those of the catalogue, DIR/partial.",
)
@click.option("--datasets", default="", help="Only these data sets, such as 'bibtex delicious'.  [default: all]")
@click.option(
    "--epochs-scale",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    default=1.0,
    show_default=True,
    help="Factor of all numbers of epochs, or of the training time where that is fixed, to try an experiment quickly.",
)
@click.option("--list", "as_list", is_flag=True, help="Print the experiments of the catalogue.")
@quiet_option
@threads_option
def reproduce(
    names: tuple[str, ...],
    data: Path,
    results: Path,
    datasets: str,
    epochs_scale: float,
    as_list: bool,
    progress: Progress,
    note: Callable[[str], None],
) -> None:
    """Run the experiments NAMES of the catalogue and print their tables, with the papers' numbers next to ours.

    Writes DIR/NAME.json and NAME.md, and for figures NAME.png and NAME.pdf. They have all results in DIR, also those of
    other data sets from earlier runs. An interrupted experiment continues with its unfinished cells. Data sets whose
    files are missing are skipped with a message.

    With --epochs-scale, or data that are not those of the catalogue, it is not the experiment of the paper: the table
    says so, and all is written to DIR/partial. If nothing can be run, nothing is written.

    \b
    Example:
      python -m benchmarks.papers table2 figure1 --datasets bibtex --epochs-scale 0.1
    """
    catalogue = load_papers()
    if as_list:
        width = max(map(len, map(str, catalogue.experiments)), default=0) + 2
        for name, spec in catalogue.experiments.items():
            click.echo(f"{name:{width}}{spec.get('title', '') if isinstance(spec, dict) else ''}")
        return
    if not names:
        raise click.UsageError("Name an experiment; --list prints them.")
    only = datasets.replace(",", " ").split()
    experiments = [load_experiment(catalogue, name, data, only, epochs_scale) for name in names]
    if epochs_scale != 1 or any(experiment.other_sizes for experiment in experiments):
        results /= PARTIAL
    for experiment in experiments:
        for text in _notes(experiment, data, results):
            note(text)
    try:
        run_cells([cell for experiment in experiments for cell in experiment.cells], results, progress)
    except Interrupted as error:
        error.advice = "the same command continues with the unfinished cells"
        raise
    for experiment in experiments:
        markdown, files = write_report(experiment, catalogue.entries, results)
        click.echo(markdown)
        for file in files:
            note(f"figure: {file}")


def _notes(experiment: Experiment, data: Path, results: Path) -> Iterator[str]:
    """Yield what a user should know before an experiment runs; SettingsError if it has no data and no results."""
    finished = experiment.finished_rows(results)
    missing = ", ".join(experiment.missing)
    text = f"{experiment.name}: not in {data}: {missing}; `xmlgp fetch NAME --into {data}` downloads them"
    if not experiment.cells and not any(dataset in experiment.chosen for dataset, *_ in finished):
        raise SettingsError(text)
    if missing:
        yield text
    for dataset in filter(experiment.other_sizes.get, experiment.chosen):
        text = f"{dataset} in {data} is not that of the catalogue: {experiment.other_sizes[dataset]}"
        yield f"{experiment.name}: {text}; its results are kept in {results}"
    if finished:
        rows = "row of the table is" if len(finished) == 1 else "rows of the table are"
        yield f"{experiment.name}: {len(finished)} {rows} from earlier runs, kept in {results}"
