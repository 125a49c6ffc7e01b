"""`xmlgp evaluate`: compare scores with the true labels and print the measures."""

import json

import click
import numpy as np

from xmlgp.cli.options import cache_option, note, quiet_option
from xmlgp.cli.probabilities import check_probabilities, what_is_listed
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.errors import ScoresFormatError
from xmlgp.metrics.auc import areas_under_roc
from xmlgp.metrics.binary import are_probabilities, evaluate_binary
from xmlgp.metrics.calibration import expected_calibration_error, log_loss
from xmlgp.metrics.propensity import DEFAULT_A, DEFAULT_B, propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runtime.progress import terminal_progress

__all__ = ["evaluate"]

#: Parameters of the command that are about rankings of labels, and the options they come from.
OF_RANKINGS = {
    "train": "--train",
    "ks": "-k",
    "propensity_a": "--propensity-a",
    "propensity_b": "--propensity-b",
}


class _Ranks(click.ParamType):
    """A list such as `1,3,5`."""

    name = "k,k,..."

    def convert(self, value, param, context):
        """Return the numbers in ascending order, each once."""
        if not isinstance(value, str):
            return value
        try:
            ks = sorted({int(k) for k in value.split(",")})
        except ValueError:
            ks = [0]
        if ks[0] < 1:
            self.fail(f"{value!r} is not a list of positive whole numbers such as 1,3,5.", param, context)
        return ks


@click.command()
@click.argument("scores", type=click.Path(allow_dash=True))
@click.argument("data", type=click.Path(allow_dash=True))
@click.option("--train", type=click.Path(allow_dash=True), help="Training data, for the propensity-scored measures.")
@click.option("-k", "ks", type=_Ranks(), default="1,3,5", show_default=True, help="The numbers of labels to look at.")
@click.option("--propensity-a", type=click.FloatRange(min=0, min_open=True), help="A of the propensity model.")
@click.option("--propensity-b", type=click.FloatRange(min=0, min_open=True), help="B of the propensity model.")
@click.option("--auc", is_flag=True, help="Also the area under the ROC curve: micro, macro and by instance.")
@click.option(
    "--calibration", is_flag=True, help="Also measure the probabilities that SCORES has: log loss, calibration error."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in full precision.")
@cache_option
@quiet_option
@click.pass_context
def evaluate(context, scores, data, train, ks, propensity_a, propensity_b, auc, calibration, as_json, cache, quiet):
    """Compare SCORES with the true labels in DATA.

    Prints P@k and nDCG@k in percent, with --train also their propensity-scored forms PSP@k and PSnDCG@k, as the Extreme
    Classification Repository computes them. Points without labels are left out; equal scores rank by label, the lower
    first. DATA may be a folder with test.txt or test.svm, TRAIN one with train.txt. Every file may be gzipped (.gz),
    and one be - for standard input.

    A and B of the propensity model default to those of the catalogue's data set of the shape of the training data, else
    to 0.55 and 1.5.

    --auc adds the area under the ROC curve, the chance that a true label has a higher score than one that is not true,
    equal scores counting half: from 0 to 1, 0.5 by guessing. AUC_micro compares any two labels of any two points;
    AUC_macro is the mean over labels, each of which compares the points; AUC_instance is the mean over points, each of
    which compares its labels. Labels and points where all is true or nothing are left out of the means. Labels that
    SCORES does not list count as equal and below all that it lists; predict -k all lists every label.

    --calibration is for probabilities. It adds their log loss, in nats a label, and ECE, the expected calibration error
    in 15 bins, over all labels listed in SCORES, those of points without true labels too; predict -k all lists every
    label.

    Of data with one label, such as all in libsvm's format, the measures are others: accuracy, in percent, log_loss, in
    nats, and AUC, from 0 to 1; with --calibration also ECE. Scores that are all from 0 to 1 are taken for
    probabilities, and those above 0.5 say that a point has the label; others are utilities, those above 0 say so, and
    have no log loss. Every point must have a score.

    \b
    Examples:
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores
      xmlgp evaluate bibtex.scores data/bibtex/test.txt --train data/bibtex/train.txt
      xmlgp predict models/bibtex data/bibtex -k all --output probability -o all.scores
      xmlgp evaluate all.scores data/bibtex --auc --calibration
    """
    if [scores, data, train].count("-") > 1:
        raise click.UsageError("Only one of SCORES, DATA and --train can be standard input.")
    if not train and (propensity_a or propensity_b):
        raise click.UsageError("--propensity-a and --propensity-b need --train.")
    progress = terminal_progress(quiet)

    read = read_scores(scores, progress)
    if calibration:
        check_probabilities(read, scores)
    labels = read_dataset(locate(data, "test"), cache, progress)[0].labels
    if read.K == labels.shape[1] == 1:
        for option in _of_no_use(context):
            note(f"{option} has no effect on data of one label", quiet)
        measures = _of_one_label(read, scores, labels, calibration, quiet)
        click.echo(json.dumps(measures) if as_json else _table_of_one_label(measures))
        return
    predicted = read.matrix
    longest = int(np.diff(predicted.indptr).max(initial=0))
    if ks[-1] > longest:
        note(f"{scores} has at most {longest} labels a point: for larger k the missing ones count as wrong", quiet)
    if train:
        training_data, _ = read_dataset(locate(train, "train"), cache, progress)
        a, b, origin = _propensity_model(training_data, propensity_a, propensity_b)
        note(f"Propensities have A={a:g} and B={b:g}, {origin}", quiet)
        measures = evaluate_ranking(predicted, labels, ks, propensities(training_data.labels, a, b))
    else:
        note("Without --train the propensity-scored measures are left out", quiet)
        measures = evaluate_ranking(predicted, labels, ks)
    if auc:
        if predicted.nnz < predicted.shape[0] * predicted.shape[1]:
            note(
                f"AUC counts the labels not listed as equal, last: {predicted.nnz} are listed, at most {longest} "
                f"a point of {predicted.shape[1]}; `xmlgp predict -k all` lists them all",
                quiet,
            )
        measures |= areas_under_roc(predicted, labels)
    if calibration:
        note(f"Log loss and ECE are over {what_is_listed(read)}", quiet)
        measures["log_loss"] = log_loss(predicted, labels)
        measures["ECE"] = expected_calibration_error(predicted, labels)
    click.echo(json.dumps(measures) if as_json else _table(measures, ks))


def _of_no_use(context):
    """Return the options given that are about rankings of labels."""
    given = click.core.ParameterSource.COMMANDLINE
    return [option for name, option in OF_RANKINGS.items() if context.get_parameter_source(name) == given]


def _of_one_label(read, path, labels, calibration, quiet):
    """Return the measures of scores of one label, read from a file of that name."""
    missing = np.flatnonzero(np.diff(read.indptr) == 0)
    if len(missing) and labels.shape[0] == read.N:
        # Points begin in the second line.
        reason = "the point has no score, but accuracy needs one of every point"
        raise ScoresFormatError(path, int(missing[0]) + 2, reason)
    measures = evaluate_binary(read.matrix, labels)
    if are_probabilities(read.matrix):
        note(f"{path} has scores from 0 to 1 alone, so they are taken for probabilities", quiet)
    else:
        note(f"{path} has scores that are no probabilities, so they are utilities, which have no log loss", quiet)
    if "AUC" not in measures:
        note("All points have the label or none has it, so there is no AUC", quiet)
    return measures | ({"ECE": expected_calibration_error(read.matrix, labels)} if calibration else {})


def _propensity_model(training_data, a, b):
    """Return A, B and where they come from: what was asked for, else the catalogue, else the default."""
    if a and b:
        return a, b, "as asked for"
    entry = load_catalogue().find_by_shape(training_data.N, training_data.D, training_data.K)
    known = entry and entry.propensity
    default = (known.A, known.B) if known else (DEFAULT_A, DEFAULT_B)
    origin = f"those of {entry.name} in the catalogue" if known else "the default"
    return a or default[0], b or default[1], f"in part {origin}" if a or b else origin


def _table_of_one_label(measures):
    """Lay out the measures, one a row, accuracy in percent."""
    cells = {name: f"{value:.2f}" if name == "accuracy" else f"{value:.5f}" for name, value in measures.items()}
    first, width = (max(map(len, words)) for words in (cells, cells.values()))
    return "\n".join(f"{name:<{first}}  {cell:>{width}}" for name, cell in cells.items())


def _table(measures, ks):
    """Lay out the measures, one a row: those of each k in percent, then the others as they are."""
    rows = [["", *(f"@{k}" for k in ks)]]
    for name in dict.fromkeys(name.partition("@")[0] for name in measures):
        single = measures.get(name)
        cells = [f"{measures[f'{name}@{k}']:.2f}" for k in ks] if single is None else [f"{single:.5f}"]
        rows.append([name, *cells])
    first = max(len("PSnDCG"), *(len(name) for name, *_ in rows))
    width = max(len("100.00"), *(len(cell) for cell in rows[0]))
    return "\n".join(f"{name:<{first}}" + "".join(f"  {cell:>{width}}" for cell in cells) for name, *cells in rows)
