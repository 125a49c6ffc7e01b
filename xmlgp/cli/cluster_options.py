"""The options of commands that can run on a Dask cluster."""

import contextlib
import logging

import click

from xmlgp.cli.options import note
from xmlgp.cluster.connection import open_cluster

__all__ = ["cluster_arguments", "cluster_of", "cluster_options"]


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
def cluster_of(scheduler, workers, quiet):
    """Yield the `Cluster` that options ask for, or None; tell the address of its dashboard.

    Parameters
    ----------
    scheduler : str or None
    workers : int or None
    quiet : bool
    """
    if scheduler is not None and workers is not None:
        raise click.UsageError("--scheduler and --workers exclude each other.")
    # What Dask would log is told in a sentence, or is none of the user's business.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with open_cluster(scheduler, workers) as cluster:
        if cluster is not None:
            count = cluster.worker_count
            dashboard = f"; dashboard {cluster.dashboard}" if cluster.dashboard else ""
            note(f"{count} worker{'s' * (count != 1)} of a Dask cluster{dashboard}", quiet)
        yield cluster
