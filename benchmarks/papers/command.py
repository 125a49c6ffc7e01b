"""The command `python -m benchmarks.papers`."""

from pathlib import Path

import click

from benchmarks.papers.catalogue import PARTIAL, load_experiment, load_papers
from benchmarks.papers.cells import run_cells
from benchmarks.papers.report import write_report
from xmlgp.cli import CONTEXT_SETTINGS, Command
from xmlgp.cli.options import NonEmptyPath, check_finite, quiet_option, threads_option
from xmlgp.errors import SettingsError
from xmlgp.runtime.interrupts import Interrupted

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
def reproduce(names, data, results, datasets, epochs_scale, as_list, progress, note):
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
    if epochs_scale != 1 or any(experiment.others for experiment in experiments):
        results /= PARTIAL
    for experiment in experiments:
        kept = experiment.finished_rows(results)
        missing = ", ".join(experiment.missing)
        text = f"{experiment.name}: not in {data}: {missing}; `xmlgp fetch NAME --into {data}` downloads them"
        if not experiment.cells and not any(dataset in experiment.chosen for dataset, *_ in kept):
            raise SettingsError(text)
        if missing:
            note(text)
        for dataset in filter(experiment.others.get, experiment.chosen):
            text = f"{dataset} in {data} is not that of the catalogue: {experiment.others[dataset]}"
            note(f"{experiment.name}: {text}; its results are kept in {results}")
        if kept:
            rows = "row of the table is" if len(kept) == 1 else "rows of the table are"
            note(f"{experiment.name}: {len(kept)} {rows} from earlier runs, kept in {results}")
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
