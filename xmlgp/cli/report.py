"""`xmlgp report`: write a page about how a model does on test data."""

import contextlib
import os
from pathlib import Path

import click
import numpy as np

from xmlgp.cli.corpus_options import corpus_options, is_text
from xmlgp.cli.options import OutputPath, cache_option, note, quiet_option
from xmlgp.cli.scores import check_label_count, count_labels
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.formats import read_blocks, read_dataset
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import open_input, open_output
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.metrics.propensity import choose_propensity_model, propensities
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.predictor import MEMORY
from xmlgp.report.content import make_content
from xmlgp.report.evidence import LISTED, Evidence
from xmlgp.report.page import check_available, render
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import terminal_progress
from xmlgp.text.labelled_data import read_known_data
from xmlgp.text.points import labelled_documents_as_points

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
def report(model, data, out, train, label_names, title, seed, columns, corpus_format, cache, quiet):
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
        columns = columns.over(own.vectorizer and own.vectorizer.columns)
        training = _training_data(train, data, folder, own, (columns, corpus_format), cache, progress, quiet)
        tuned, rule = _tuned(folder, model, quiet)
        evidence = Evidence(K, tuned and tuned.rule, seed=seed)
        points = _points(test, predictor, folder, own, data, columns, corpus_format, quiet)
        _gather(evidence, predictor, points, max(LISTED, tuned.limit if tuned else 0), progress)
        content = _content(
            evidence,
            data,
            title=title or Path(model).resolve().name,
            facts=_facts(folder, model, test, training),
            counts=None if training is None else np.bincount(training.labels.indices, minlength=K),
            propensities=None if training is None else _propensities(training, quiet),
            names=names,
            feature_names=own.features,
            explanations=_explanations(predictor, evidence.sample, quiet),
            rule=rule,
        )
        stream.write(render(content).encode())
    if out != "-":
        click.echo(out)


def _open(folder):
    """Return a model folder, its predictor and its `Names`."""
    return folder, open_predictor(folder), folder.names


def _content(evidence, data, **facts):
    """Return the content of the report; an error names the test data."""
    try:
        return make_content(evidence, **facts)
    except SettingsError as error:
        raise SettingsError(f"{data}: {error}") from None


def _points(test, predictor, folder, own, data, columns, corpus_format, quiet):
    """Yield blocks of test points (`Dataset`), with their texts and identifiers or None."""
    with open_input(test) as stream:
        reader = LineReader(stream, test)
        if is_text(reader, columns or corpus_format, folder, data):
            known = labelled_documents_as_points(reader, own.vectorizer, own.labels, columns, corpus_format)
            for documents, block in known:
                yield block, [document.text for document in documents], [document.id for document in documents]
            return
        header, blocks = read_blocks(reader, predictor.feature_count, lambda text: note(text, quiet))
        try:
            predictor.check(header.D)
        except SettingsError as error:
            raise SettingsError(f"{data}: {error}") from None
        if predictor.label_count != header.K:
            raise SettingsError(
                f"{data} has {count_labels(header.K)}, but the model was trained on {predictor.label_count}"
            )
        for _, block in blocks:
            yield block, None, None


def _gather(evidence, predictor, points, k, progress):
    """Score the test points and add them to the evidence, block by block."""
    with progress("report", unit=" points") as bar:
        for block, texts, ids in points:
            done = 0
            for scores in predictor.top(block.features, k, "probability", memory=MEMORY):
                scores.check_finite(evidence.point_count)
                rows = slice(done, done + scores.N)
                shown = [None if values is None else values[rows] for values in (texts, ids)]
                evidence.add(scores, block.labels[rows], block.features[rows], *shown)
                done += scores.N
                bar.update(scores.N)


def _training_data(train, data, folder, own, corpus, cache, progress, quiet):
    """Return the training data as given, or those beside the test data if the model was trained on them, or None."""
    described = folder.description["data"]
    if train:
        training = read_known_data(locate(train, "train"), own, *corpus, cache, progress)
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


def _propensities(training, quiet):
    """Return the propensities of the labels, or None if there are too few training points for them."""
    model = choose_propensity_model(load_catalogue().find_by_shape(training.N, training.D, training.K))
    try:
        return propensities(training.labels, model.A, model.B)
    except SettingsError as error:
        note(f"There is no PSP: {error}", quiet)
        return None


def _tuned(folder, model, quiet):
    """Return what is tuned, if it is for probabilities, and how to say it."""
    tuned = folder.tuned
    if tuned is None:
        return None, None
    if tuned.output != "probability":
        note(f"{model} is tuned for --output {tuned.output}, which this report does not use", quiet)
        return None, None
    return tuned, f"the labels of {tuned} of a document, as xmlgp tune chose"


def _facts(folder, model, test, training):
    described = folder.description
    facts = [("Model", f"{model} ({described['model']})"), ("Test data", "standard input" if test == "-" else test)]
    facts.append(("Training documents", f"{described['data']['N']:,}"))
    if training is not None:
        facts.append(
            ("Labels that no training document has", f"{training.K - len(np.unique(training.labels.indices)):,}")
        )
    return [*facts, ("Written by", described["written_by"])]


def _explanations(predictor, sample, quiet):
    """Return what the features of the sample contribute to its labels, or None if the model cannot say."""
    if not len(sample.points):
        return None
    try:
        return predictor.explain(sample.features, sample.scores)
    except SettingsError as error:
        note(f"The report has no words for and against labels: {error}", quiet)
        return None
