"""The command `python -m benchmarks.papers`."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from benchmarks.papers.again import AGAIN, begin, end, only_run
from benchmarks.papers.catalogue import PARTIAL, Experiment, PapersCatalogue, load_experiment, load_papers
from benchmarks.papers.cells import run_cells
from benchmarks.papers.estimate import duration, estimate
from benchmarks.papers.report import beside_kept, write_report
from xmlgp.cli import CONTEXT_SETTINGS, Command
from xmlgp.cli.options import NonEmptyPath, check_finite, quiet_option, threads_option
from xmlgp.errors import SettingsError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import Progress
from xmlgp.runtime.threads import core_count

__all__ = ["reproduce"]

#: The name that stands for all experiments.
ALL = "all"

#: The most experiments that a message names.
MOST_NAMES = 3


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
@click.option(
    "--again",
    is_flag=True,
    help="Train all cells, whether or not they have a result, into DIR/again, and compare them with the kept results.",
)
@click.option("--list", "as_list", is_flag=True, help="Print the experiments of the catalogue.")
@quiet_option
@threads_option
def reproduce(  # noqa: PLR0913, which are the options
    names: tuple[str, ...],
    data: Path,
    results: Path,
    datasets: str,
    epochs_scale: float,
    again: bool,
    as_list: bool,
    progress: Progress,
    note: Callable[[str], None],
) -> None:
    """Run the experiments NAMES of the catalogue, or `all`, and print their tables, the papers' numbers next to ours.

    Says first how long it will take. Writes DIR/NAME.json and NAME.md, and for figures NAME.png and NAME.pdf. They have
    all results in DIR, also those of other data sets from earlier runs. An interrupted experiment continues with its
    unfinished cells. Data sets whose files are missing are skipped with a message.

    Kept results are printed and not trained again, unless --again is given. Then the table has the paper's numbers, the
    kept ones, the new ones and the differences, and all is written to DIR/again. A run that was interrupted continues
    there; after one that ended, all cells are trained again.

    With --epochs-scale, or data that are not those of the catalogue, it is not the experiment of the paper: the table
    says so, and all is written to DIR/partial. If nothing can be run, nothing is written.

    \b
    Example:
      python -m benchmarks.papers table2 figure1 --datasets bibtex --epochs-scale 0.1
      python -m benchmarks.papers table2 --again
    """
    catalogue = load_papers()
    if as_list:
        width = max(map(len, map(str, catalogue.experiments)), default=0) + 2
        for name, spec in catalogue.experiments.items():
            click.echo(f"{name:{width}}{spec.get('title', '') if isinstance(spec, dict) else ''}")
        return
    if not names:
        raise click.UsageError(f"Name an experiment, or {ALL}; --list prints them.")
    only = [catalogue[name].name for name in datasets.replace(",", " ").split()]
    some = ALL in names

    def load(scale: float) -> list[Experiment]:
        chosen = _names(catalogue, only) if some else dict.fromkeys(names)
        return [load_experiment(catalogue, name, data, only, scale) for name in chosen]

    experiments = load(epochs_scale)
    full_length = load(1.0)
    kept = results
    if epochs_scale != 1 or any(experiment.other_sizes for experiment in experiments):
        kept = results / PARTIAL
    target = kept / AGAIN if again else kept
    runnable = [bool(experiment.cells or (not again and experiment.finished_rows(kept))) for experiment in experiments]
    _check_runnable(catalogue, experiments, runnable, data, some)
    for text in _notes(catalogue, experiments, data, kept, again):
        note(text)
    cells = [cell for experiment in experiments for cell in experiment.cells]
    with only_run(target) if again else contextlib.nullcontext():
        if again and (left := begin(cells, target)):
            note(f"going on with the run that was interrupted, which has trained {left} of the cells")
        _announce(list(zip(experiments, full_length, strict=True)), results, target, note)
        try:
            run_cells(cells, target, progress)
        except Interrupted as error:
            error.advice = "the same command continues with the unfinished cells"
            raise
        for experiment, runs in zip(experiments, runnable, strict=True):
            if runs:
                shown = beside_kept(experiment, catalogue.entries, kept) if again else experiment
                markdown, files = write_report(shown, catalogue.entries, target)
                click.echo(markdown)
                for file in files:
                    note(f"figure: {file}")
        if again:
            end(cells, target)


def _names(catalogue: PapersCatalogue, only: Sequence[str]) -> list[str]:
    """Return the names of the experiments that have some of the data sets, or of all."""
    names = [
        name for name, spec in catalogue.experiments.items() if not only or set(only).intersection(spec["datasets"])
    ]
    if not names:
        raise SettingsError(f"no experiment has {' or '.join(only)}")
    return names


def _check_runnable(
    catalogue: PapersCatalogue, experiments: Sequence[Experiment], runnable: Sequence[bool], data: Path, some: bool
) -> None:
    """Raise SettingsError if an experiment has neither data nor results to show; with `some`, if none has."""
    if any(runnable) if some else all(runnable):
        return
    failed = [experiment for experiment, runs in zip(experiments, runnable, strict=True) if not runs]
    raise SettingsError(f"{_list(failed)}: {_absent(catalogue, failed, data)}")


def _announce(
    pairs: Sequence[tuple[Experiment, Experiment]], results: Path, target: Path, note: Callable[[str], None]
) -> None:
    """Say how many cells there are to train, and how long that takes."""
    cost = estimate(pairs, results, target)
    if cost.cells:
        cores = core_count()
        text = f"{cost.cells} cells to train: {duration(cost.seconds)} on {cores} core{'s' if cores > 1 else ''}"
        if cost.unmeasured:
            text += f", and that of {cost.unmeasured} cells that were never measured"
        note(text if cost.unmeasured < cost.cells else f"{cost.cells} cells to train, which were never measured")


def _notes(
    catalogue: PapersCatalogue, experiments: Sequence[Experiment], data: Path, kept: Path, again: bool
) -> Iterator[str]:
    """Yield what a user should know before experiments run: missing data, other data, and rows of kept results."""
    if any(experiment.missing for experiment in experiments):
        yield _absent(catalogue, experiments, data)
    other = {dataset: sizes for experiment in experiments for dataset, sizes in experiment.other_sizes.items()}
    for dataset in dict.fromkeys(dataset for experiment in experiments for dataset in experiment.chosen):
        if dataset in other:
            yield f"{dataset} in {data} is not that of the catalogue: {other[dataset]}; its results are kept in {kept}"
    counts = [0 if again else len(experiment.finished_rows(kept)) for experiment in experiments]
    shown = [experiment for experiment, count in zip(experiments, counts, strict=True) if count]
    if shown:
        rows = sum(counts)
        text = "1 row is a kept result" if rows == 1 else f"{rows} rows are kept results"
        yield f"{_list(shown)}: {text}, in {kept}, not trained now; --again (AGAIN=1 with make) trains them again"


def _list(experiments: Sequence[Experiment]) -> str:
    """Return the names of experiments, or the number if there are many."""
    if len(experiments) > MOST_NAMES:
        return f"{len(experiments)} experiments"
    return ", ".join(experiment.name for experiment in experiments)


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
