"""`xmlgp report`: write a page about how a model does on test data."""

import contextlib
import functools
import os
from pathlib import Path

import click
import numpy as np

from xmlgp.cli.corpus_options import corpus_options
from xmlgp.cli.options import OutputPath, cache_option, note, quiet_option
from xmlgp.cli.scores import check_label_count, count_labels
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import open_output
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.report.page import check_available
from xmlgp.report.report import make_report
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import terminal_progress
from xmlgp.text.points import open_points, read_known_data

__all__ = ["report"]


@click.command(short_help="Write a page about a model.")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "-o",
    "--out",
    type=OutputPath(dir_okay=False, allow_dash=True),
    default="report.html",
    show_default=True,
    help="The page, or - for standard output.",
)
@click.option(
    "--train",
    type=click.Path(allow_dash=True),
    help="Training data, for the frequency of labels and PSP.  [default: those in DATA, if MODEL was trained on them]",
)
@click.option(
    "--label-names",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Names of the labels: UTF-8 text, one name per line, label 0 first.",
)
@click.option("--title", help="Title of the page.  [default: the name of the folder MODEL]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the sample of documents.")
@corpus_options
@cache_option
@quiet_option
def report(model, data, out, train, label_names, title, seed, corpus, cache, quiet):
    """Write a page about how the model in the folder MODEL does on DATA; needs Jinja2 (pip install 'xmlgp[report]').

    The page is one HTML file that loads nothing from elsewhere. It has the measures with their meaning, precision and
    recall by the frequency of labels, the reliability of probabilities, the best and the worst labels, the labels that
    are most often given in place of others, and twenty documents with their true and suggested labels.

    DATA is a file in the format of the Extreme Classification Repository (also .gz, or - for standard input), or a
    folder with test.txt. If MODEL was trained on text it may be a corpus, and the page then shows its texts.

    Labels are given by the threshold and the limit that `xmlgp tune` stored in MODEL, and otherwise as `xmlgp predict
    --assign` does, but by the probabilities of the 50 best labels.

    \b
    Example:
      xmlgp report models/bibtex data/bibtex -o bibtex.html
    """
    if [data, train, label_names].count("-") > 1:
        raise click.UsageError("Only one of DATA, --train and --label-names can be standard input.")
    check_available()
    folder, predictor, own = ModelFolder.read(model, _open)
    K = predictor.label_count
    if K < 2:
        raise SettingsError(
            f"{model}: a report needs a model of two labels or more, but this one has {count_labels(K)}"
        )
    names = read_label_names(label_names, K) if label_names else own.labels
    test = locate(data, "test")
    with open_output(out) as stream:
        progress = terminal_progress(quiet)
        training = _training_data(train, data, folder, own, corpus, cache, progress, quiet)
        counts = None if training is None else np.bincount(training.labels.indices, minlength=K)
        page = make_report(
            predictor,
            _points(test, predictor, own, data, corpus, quiet),
            title=title or Path(model).resolve().name,
            facts=_facts(folder, model, test, training),
            names=names,
            feature_names=own.features,
            tuned=folder.tuned,
            counts=counts,
            propensities=None if training is None else _propensities(training, counts, quiet),
            seed=seed,
            progress=progress,
            note=lambda text: note(text, quiet),
        )
        stream.write(page.encode())
    if out != "-":
        click.echo(out)


def _open(folder):
    """Return a model folder, its predictor and its `Names`."""
    return folder, open_predictor(folder), folder.names


def _points(test, predictor, own, data, corpus, quiet):
    """Yield blocks of test points (`Dataset`), with their texts and identifiers or None."""
    tell = functools.partial(note, quiet=quiet)
    with open_points(test, own, predictor.feature_count, corpus, labelled=True, note=tell) as points:
        try:
            predictor.check(points.D)
        except SettingsError as error:
            raise SettingsError(f"{data}: {error}") from None
        if predictor.label_count != points.K:
            raise SettingsError(
                f"{data} has {count_labels(points.K)}, but the model was trained on {predictor.label_count}"
            )
        for block in points.blocks():
            yield block.points, block.texts, block.ids


def _training_data(train, data, folder, own, corpus, cache, progress, quiet):
    """Return the training data as given, or those beside the test data if the model was trained on them, or None."""
    described = folder.description["data"]
    if train:
        training = read_known_data(train, "train", own, corpus, cache, progress)
        check_label_count(train, training.K, described["K"], str(folder.path))
        return training
    file = None
    if os.path.isdir(data):
        # A folder may well have test data only.
        with contextlib.suppress(XmlgpError):
            file = locate(data, "train")
    if file is not None:
        training, _ = read_dataset(file, cache, progress)
        if training.fingerprint == described["fingerprint"]:
            return training
        note(f"{folder.path} was not trained on {file}; --train names its training data", quiet)
    note("Without --train, labels are grouped by their frequency in DATA, and there is no PSP", quiet)
    return None


def _propensities(training, counts, quiet):
    """Return the propensities of the labels, or None if there are too few training points for them."""
    try:
        return estimate_propensities(counts, training.N, training.D).values
    except SettingsError as error:
        note(f"There is no PSP: {error}", quiet)
        return None


def _facts(folder, model, test, training):
    described = folder.description
    facts = [("Model", f"{model} ({described['model']})"), ("Test data", "standard input" if test == "-" else test)]
    facts.append(("Training documents", f"{described['data']['N']:,}"))
    if training is not None:
        facts.append(
            ("Labels that no training document has", f"{training.K - len(np.unique(training.labels.indices)):,}")
        )
    return [*facts, ("Written by", described["written_by"])]
