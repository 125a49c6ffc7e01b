"""`xmlgp preprocess`: prepare a data set for training."""

import click

from xmlgp.api import preprocess as api
from xmlgp.cli.options import (
    INPUT,
    Cluster,
    NonEmptyPath,
    OptionValue,
    analysis_options,
    cluster_options,
    dense_option,
    executor_of,
    overwrite_option,
    reading_options,
    source_of,
    threads_option,
)
from xmlgp.cli.settings_options import settings_options
from xmlgp.runtime.progress import Reporter

__all__ = ["preprocess"]


@click.command()
@click.argument("data", type=INPUT)
@click.argument("model", type=NonEmptyPath())
@settings_options
@overwrite_option
@cluster_options
@analysis_options
@dense_option
@reading_options
@threads_option
def preprocess(data: str, model: str, cluster: Cluster, reporter: Reporter, **options: OptionValue) -> None:
    """Preprocess DATA into the folder MODEL: weight the features, find the basis and the initial inducing inputs.

    `xmlgp train` preprocesses by itself; with the same data and options, it starts from the result in MODEL.

    \b
    Examples:
      xmlgp preprocess tickets.csv models/tickets
      xmlgp preprocess data/bibtex models/bibtex --recipe s-LINEAR

    A model of the same data with the same settings in MODEL is replaced, even if it is trained; another trained model
    is replaced only with --overwrite. An interrupted run in MODEL is kept.
    """
    with executor_of(cluster, reporter) as executor:
        folder = api.preprocess(source_of(data, options), model, reporter=reporter, executor=executor, **options)
    reporter.note(f"{model}: {folder.stage}; continue with `xmlgp train` and the same data and options")
