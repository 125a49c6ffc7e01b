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
    overwrite_option,
    reading_options,
    source_of,
    threads_option,
    vocabulary_options,
    work_of,
)
from xmlgp.cli.settings_options import settings_options
from xmlgp.runtime.progress import Reporter

__all__ = ["train"]


@click.command()
@click.argument("data", type=INPUT)
@click.argument("model", type=NonEmptyPath())
@settings_options()
@click.option(
    "--no-resume", is_flag=True, help="Discard an interrupted run in MODEL, rather than resuming it with these options."
)
@overwrite_option
@click.option(
    "--keep-points/--no-keep-points",
    default=True,
    show_default=True,
    help="Whether MODEL keeps the training points as read, which `xmlgp learn --retrain` needs.",
)
@checkpoint_option
@cluster_options
@analysis_options
@vocabulary_options
@click.option(
    "--label-texts",
    type=INPUT,
    metavar="FILE",
    help="Texts of labels, lines LABEL<TAB>TEXT: names, alternative names or descriptions. Labels that DATA do not "
    "have are suggested by the words of their texts that DATA have.",
)
@dense_option
@reading_options()
@threads_option
def train(data: str, model: str, cluster: Cluster, reporter: Reporter, no_resume: bool, **options: OptionValue) -> None:
    """Train a model on DATA and write it to the folder MODEL.

    DATA is a corpus of documents with labels (.csv, .jsonl and other formats that `xmlgp vectorize` reads), a file of
    rows of numbers, or a folder with train.csv, train.txt or the like.

    \b
    Examples:
      xmlgp train tickets.csv models/tickets
      xmlgp train news.csv models/news --text-column title --label-column tags
      xmlgp train news.jsonl models/news --stop-words english
      xmlgp train data/bibtex models/bibtex --recipe s-LINEAR

    Rows of numbers are in the format of the Extreme Classification Repository or in libsvm format, perhaps compressed,
    or - for standard input; a folder has train.txt or one *.svm.

    MODEL keeps the names of labels and features, and a model of text predicts from text. With --vocabulary it also
    keeps the URIs and the preferred labels, by which commands name the labels.

    Where MODEL holds the result of `xmlgp preprocess` on the same data, training continues from there with its
    settings. The same command resumes an interrupted run from its last checkpoint, and ends in the same model.

    \b
    More examples:
      xmlgp train articles.jsonl models/articles --ngrams 1-2 --min-count 2 --dense embeddings.npy
      xmlgp train data/bibtex models/bibtex-se --kernel se+linear --set ard=false -P 159
    """
    check_standard_input(data, options["vocabulary"])
    with work_of(cluster, reporter) as work:
        api.train(source_of(data, options), model, resume=not no_resume, reporter=reporter, work=work, **options)
