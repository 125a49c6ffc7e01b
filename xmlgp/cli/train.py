"""`xmlgp train`: train a model."""

import click

from xmlgp.api import train as api
from xmlgp.cli.options import (
    INPUT,
    Cluster,
    NonEmptyPath,
    OptionValue,
    analysis_options,
    check_standard_input,
    checkpoint_option,
    cluster_options,
    dense_option,
    executor_of,
    overwrite_option,
    rare_option,
    reading_options,
    source_of,
    threads_option,
    vocabulary_options,
)
from xmlgp.cli.settings_options import settings_options
from xmlgp.runtime.progress import Reporter

__all__ = ["train"]


@click.command()
@click.argument("data", type=INPUT)
@click.argument("model", type=NonEmptyPath())
@settings_options
@click.option("--no-resume", is_flag=True, help="Discard an interrupted run in MODEL.")
@overwrite_option
@rare_option(
    "--keep-points/--no-keep-points",
    default=True,
    show_default=True,
    help="Whether MODEL keeps the training points as read, which `xmlgp learn --retrain` needs.",
)
@checkpoint_option
@cluster_options
@analysis_options
@vocabulary_options
@rare_option(
    "--label-texts",
    type=INPUT,
    metavar="FILE",
    help="Texts of labels, lines LABEL<TAB>TEXT: names, alternative names or descriptions. Labels that DATA do not "
    "have are suggested by the words of their texts that DATA have.",
)
@dense_option
@reading_options
@threads_option
def train(data: str, model: str, cluster: Cluster, reporter: Reporter, no_resume: bool, **options: OptionValue) -> None:
    """Train a model on DATA and write it to the folder MODEL.

    DATA is a corpus of documents with labels (.csv, .jsonl), a file of rows of
    numbers, or a folder with train.csv, train.txt or the like. The same command
    resumes an interrupted run. Every setting is an option, see --help-all.

    \b
    Examples:
      xmlgp train tickets.csv models/tickets
      xmlgp train news.csv models/news --text-column title --ngrams 1-2
      xmlgp train data/bibtex models/bibtex --recipe s-LINEAR --epochs 10
    """
    check_standard_input(data, options["vocabulary"])
    with executor_of(cluster, reporter) as executor:
        api.train(
            source_of(data, options), model, resume=not no_resume, reporter=reporter, executor=executor, **options
        )
