"""`xmlgp reproduce`: the papers' tables and figures."""

from pathlib import Path

import click

from xmlgp.cli.options import note, quiet_option
from xmlgp.data.catalogue import load_catalogue
from xmlgp.experiments.catalogue import FIGURES, load_experiment
from xmlgp.experiments.cells import finish_cells
from xmlgp.experiments.figures import draw_experiment
from xmlgp.experiments.tables import collect, write_table
from xmlgp.runtime.progress import terminal_progress

__all__ = ["reproduce"]


@click.command(short_help="Make a table or figure of the papers.")
@click.argument("names", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path), default="data", show_default=True, help="Folder of data sets.")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default="results",
    show_default=True,
    help="Folder of results; finished cells in it are not run again.",
)
@click.option("--datasets", default="", help="Only these data sets, such as 'bibtex delicious'.  [default: all there]")
@click.option(
    "--epochs-scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Factor of all numbers of epochs, or of seconds that end trainings, to try an experiment in less time.",
)
@click.option("--list", "as_list", is_flag=True, help="Print the experiments of the catalogue.")
@quiet_option
def reproduce(names, data, results, datasets, epochs_scale, as_list, quiet):
    """Run the experiments NAMES of the catalogue and print their tables, the papers' numbers beside ours.

    Writes RESULTS/NAME.json and NAME.md, and for figures NAME.png and NAME.pdf. What was interrupted goes on where it
    was. Data sets that are not there are left out and named.

    \b
    Example:
      xmlgp reproduce table2 figure1 --datasets bibtex --epochs-scale 0.1
    """
    catalogue = load_catalogue()
    if as_list:
        width = max(map(len, map(str, catalogue.experiments)), default=0) + 2
        for name, spec in catalogue.experiments.items():
            click.echo(f"{name:{width}}{spec.get('title', '') if isinstance(spec, dict) else ''}")
        return
    if not names:
        raise click.UsageError("Name an experiment; --list prints them.")
    only = datasets.replace(",", " ").split()
    experiments = [load_experiment(catalogue, name, data, only, epochs_scale) for name in names]
    for experiment in experiments:
        if experiment.missing:
            there = ", ".join(experiment.missing)
            note(f"{experiment.name}: not in {data}: {there}; `xmlgp fetch NAME --into {data}` gets them", quiet)
    finish_cells([cell for experiment in experiments for cell in experiment.cells], results, terminal_progress(quiet))
    results.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        rows = collect(experiment, catalogue.entries, results)
        table = write_table(experiment, rows, results)
        drawn = draw_experiment(experiment, results) if rows and experiment.kind in FIGURES else []
        # Once all its files are written: what is printed is there.
        click.echo(table)
        for file in drawn:
            note(f"drawn: {file}", quiet)
