"""The options of commands that can run on a Dask cluster."""

import contextlib
import logging

import click

from xmlgp.cli.options import note
from xmlgp.work.connection import open_work

__all__ = ["cluster_arguments", "cluster_options", "work_of"]


def cluster_options(command):
    """Add `--scheduler` and `--workers` to a command; it gets both."""
    scheduler = click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster with the scheduler at this address, such as tcp://HOST:8786.",
    )
    workers = click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Run on N processes of this machine, as on a Dask cluster.",
    )
    return scheduler(workers(command))


def cluster_arguments(scheduler, workers):
    """Return the arguments that ask for the same cluster, for a command that resumes."""
    if scheduler is not None:
        return "--scheduler", scheduler
    return ("--workers", str(workers)) if workers is not None else ()


@contextlib.contextmanager
def work_of(scheduler, workers, quiet):
    """Yield the `DaskCluster` that options ask for, or this machine; tell the address of the dashboard.

    Parameters
    ----------
    scheduler : str or None
    workers : int or None
    quiet : bool
    """
    if scheduler is not None and workers is not None:
        raise click.UsageError("--scheduler and --workers exclude each other.")
    # Of what Dask would log the user sees one sentence, or nothing.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with open_work(scheduler, workers) as work:
        if work.is_cluster:
            count = work.workers
            dashboard = f"; dashboard {work.dashboard}" if work.dashboard else ""
            note(f"{count} worker{'s' * (count != 1)} of a Dask cluster{dashboard}", quiet)
        yield work
