"""`xmlgp predict`: score points with a trained model."""

import functools

import click
import numpy as np

from xmlgp.cli.cluster_options import cluster_options, work_of
from xmlgp.cli.corpus_options import corpus_options
from xmlgp.cli.label_set import read_label_set
from xmlgp.cli.options import OutputPath, check_finite, given_options, note, quiet_option, show_command
from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.label_files import FORMATS, Explanation, format_of, write_labels
from xmlgp.prediction.predictor import MEMORY, OUTPUTS
from xmlgp.prediction.scores_file import write_scores
from xmlgp.runs.interrupted import readable_run
from xmlgp.runs.predict import StoredPredictor, Wanted, predict_blocks
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import terminal_progress
from xmlgp.text.points import open_points

__all__ = ["predict"]

#: Labels of a ranking by default.
RANKED = 5


class _LabelCount(click.ParamType):
    """A positive integer, or "all"."""

    name = "k|all"

    def convert(self, value, param, context):
        """Return the number, or None for all."""
        # The help shows the name of this type in capitals.
        if value.lower() == "all":
            return None
        try:
            k = int(value)
        except ValueError:
            k = 0
        if k < 1:
            self.fail(f"{value!r} is neither a positive integer nor all.", param, context)
        return k


@click.command(short_help="Score points with a trained model.")
@click.argument("model", type=click.Path())
@click.argument("data", type=click.Path(allow_dash=True))
@click.option(
    "-k",
    "k",
    type=_LabelCount(),
    help="Rank the best labels of each point, so many of them or all; at most K are written.  [default: "
    f"{RANKED}, or what `xmlgp tune` chose]",
)
@click.option(
    "--threshold",
    type=float,
    callback=check_finite,
    metavar="SCORE",
    help="Assign the labels with at least this score.",
)
@click.option("--limit", type=click.IntRange(1), metavar="K", help="Assign at most K labels to a point.")
@click.option(
    "--assign",
    "expected_f1",
    is_flag=True,
    help="Assign the labels with the highest expected F1 of the point, by the probabilities of all labels.",
)
@click.option(
    "--only", type=click.Path(allow_dash=True), metavar="FILE", help="Consider the labels in FILE only, one a line."
)
@click.option(
    "--without", type=click.Path(allow_dash=True), metavar="FILE", help="Leave out the labels in FILE, one a line."
)
@click.option("-o", "--out", type=OutputPath(allow_dash=True), default="-", show_default=True, help="The output file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("scores", *FORMATS)),
    help="A scores file, JSON Lines with an object for each point, or a table with a row for each label, separated by "
    "tabs or commas.  [default: told by the ending of --out, otherwise jsonl for text and scores for numbers]",
)
@click.option(
    "--output",
    type=click.Choice(OUTPUTS),
    help="Scores, by which labels are ranked: the probability p, integrated over the posterior (bmlpl: over the "
    "activations of topics), or the mean utility (bmlpl: −log(1 − p)).  [default: probability; bmlpl, and models "
    "trained with --ranking utility: utility]",
)
@click.option("--no-calibration", is_flag=True, help="Write probabilities as they are before their calibration.")
@click.option(
    "--explain",
    "words",
    type=click.IntRange(1),
    metavar="N",
    help="Add for each label the N words, or other features, that speak most for it, and the N that speak most against "
    "it, with their contributions to its utility. Needs a linear kernel.",
)
@click.option("--with-std", is_flag=True, help="Add the predictive standard deviation: label:score:std.")
@click.option(
    "--memory",
    type=click.IntRange(1),
    default=MEMORY,
    show_default=True,
    help="Memory limit of scoring, in megabytes, besides the model; on a Dask cluster that of each thread.",
)
@cluster_options
@corpus_options
@quiet_option
@click.pass_context
def predict(
    context, model, data, k, threshold, limit, expected_f1, only, without, out, output_format, output, no_calibration,
    words, with_std, memory, corpus, scheduler, workers, quiet,
):  # fmt: skip
    """Write the labels of highest score for each point in DATA, with the model in the folder MODEL.

    DATA is a file in the format of the Extreme Classification Repository or in libsvm format (also .gz, or - for
    standard input), or a folder with test.txt or test.svm; its labels must be well-formed but do not matter. Points in
    libsvm format may have fewer features than the model; features that no training point had are ignored. If MODEL was
    trained on text, DATA may be a corpus as for `xmlgp vectorize`, or lines of text. The answer to text is JSON Lines,
    `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, with documents numbered from 1 where they have no
    identifier. A scores file has the header `N K` and a line for each point, `label:score ...`, best first.

    With -k, every point has the same number of labels, a ranking. --threshold assigns the labels with at least this
    score, which may be none, and --limit at most so many; alone, --limit assigns as many to every point. --assign takes
    labels as independent and assigns at least one to every point. It scores all labels, which takes longer if they are
    many. Without any of these options, the threshold and the limit that `xmlgp tune` stored in MODEL apply. If these
    are for other scores than those written, the 5 best labels are written.

    With --scheduler or --workers, points are scored on a Dask cluster, whose workers see MODEL under the same path. The
    output is the same, to the last digit.

    \b
    Examples:
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores
      xmlgp predict models/amazoncat data/amazoncat --scheduler tcp://head:8786 -o amazoncat.scores
      xmlgp predict models/bibtex data/bibtex/test.txt --threshold 0.2 -o bibtex.labels
      zcat new.txt.gz | xmlgp predict models/bibtex - --with-std | head
      echo "My screen is dark" | xmlgp predict models/tickets - --explain 3
    """
    ranking = given_options(context, {"k": "-k"})
    if ranking and (threshold is not None or limit or expected_f1):
        raise click.UsageError("-k is for rankings; with --threshold or --assign, --limit K gives at most K labels.")
    if expected_f1 and threshold is not None:
        raise click.UsageError("--assign and --threshold exclude each other.")
    if expected_f1 and output == "utility":
        raise click.UsageError("--assign needs probabilities, not --output utility.")
    output_format = output_format or format_of(out)
    if words and output_format == "scores":
        raise click.UsageError("--explain needs --format jsonl, tsv or csv.")
    predictor, names, folder = _open_predictor(model)
    if words:
        predictor.check_explainable()
    K = predictor.label_count
    uncalibrated = no_calibration and predictor.calibration is not None
    output = "probability" if expected_f1 else output or predictor.default_output
    if no_calibration and not (uncalibrated and output == "probability"):
        reason = "on utilities" if uncalibrated else f"on {model}, which has no calibration"
        note(f"--no-calibration has no effect {reason}", quiet)
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise click.UsageError(f"--threshold {threshold:g} is not a probability from 0 to 1.")
    if ranking:
        rule = AssignmentRule(limit=k)
    elif threshold is None and limit is None and not expected_f1:
        rule = _default_rule(model, folder.tuned, output, uncalibrated, quiet)
    else:
        rule = AssignmentRule(threshold, limit, expected_f1)
    if [data, only, without].count("-") > 1:
        raise click.UsageError("Standard input can be read only once.")
    allowed = _allowed_labels(only, without, K, names.labels) if only or without else None
    wanted = Wanted(rule, output, with_std, memory, not no_calibration, allowed)
    tell = functools.partial(note, quiet=quiet)
    with (
        open_points(data, names, predictor.feature_count, corpus, note=tell) as points,
        work_of(scheduler, workers, quiet) as work,
    ):
        if not points.is_text:
            _check_rows(points, predictor, data, quiet)
        output_format = output_format or ("jsonl" if points.is_text or words else "scores")
        # The number of points comes first in a scores file.
        N = points.count() if output_format == "scores" or not points.is_text else None
        blocks = ((block.identifiers, block.points.features) for block in points.blocks())
        with terminal_progress(quiet)("predict", N, " points") as bar, open_output(out) as written:

            def scored():
                found = predict_blocks(StoredPredictor(predictor, folder), blocks, wanted, work)
                for identifiers, features, scores in found:
                    yield identifiers, features, scores
                    bar.update(scores.N)

            if output_format == "scores":
                write_scores(written, N, K, (scores for *_, scores in scored()))
            else:
                explain = functools.partial(Explanation, predictor, names.features, words) if words else None
                write_labels(written, output_format, scored(), names.labels, output, with_std, explain)
        if points.without_words:
            count = points.without_words
            documents = "1 document has" if count == 1 else f"{count} documents have"
            note(f"{data}: {documents} no word that the model knows", quiet)


def _check_rows(points, predictor, data, quiet):
    """Raise SettingsError if rows do not have the features of a model; note another number of labels."""
    try:
        predictor.check(points.D)
    except SettingsError as error:
        raise SettingsError(f"{data}: {error}") from None
    if points.K not in (0, predictor.label_count):
        labels = "1 label" if points.K == 1 else f"{points.K} labels"
        note(f"{data} has {labels}, but the model was trained on {predictor.label_count}", quiet)


def _allowed_labels(only, without, K, names):
    """Return which labels the options allow, K."""
    allowed = np.ones(K, bool)
    if only:
        allowed[:] = False
        allowed[read_label_set(only, K, names)] = True
    if without:
        allowed[read_label_set(without, K, names)] = False
    if not allowed.any():
        raise SettingsError("--only and --without allow no label")
    return allowed


def _default_rule(model, tuned, output, uncalibrated, quiet):
    """Return the tuned rule if there is one for this output, otherwise a ranking."""
    if tuned is None:
        return AssignmentRule(limit=RANKED)
    if tuned.output != output:
        note(f"{model} is tuned for --output {tuned.output}; writing the {RANKED} best labels", quiet)
        return AssignmentRule(limit=RANKED)
    if uncalibrated and output == "probability":
        note(f"{model} is tuned for calibrated probabilities; writing the {RANKED} best labels", quiet)
        return AssignmentRule(limit=RANKED)
    note(f"{model} is tuned for {tuned.metric}: assigning labels of {tuned}; -k ranks labels instead", quiet)
    return tuned.rule


def _open_predictor(model):
    """Return the predictor, the `Names` and the folder; the error of no model mentions an unfinished run."""
    try:
        return ModelFolder.read(model, lambda folder: (open_predictor(folder), folder.names, folder))
    except ModelFolderError as error:
        if readable_run(model) is None:
            raise
        raise ModelFolderError(f"{error}; the folder has an unfinished run, see `{show_command(model)}`") from None
