"""`xmlgp predict`: score points with a trained model."""

import click

from xmlgp.cli.options import OutputPath, note, quiet_option, show_command
from xmlgp.data.formats import read_blocks
from xmlgp.data.locate import locate
from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.predictor import MEMORY, OUTPUTS
from xmlgp.prediction.scores_file import write_scores
from xmlgp.runs.plan import readable_run
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import terminal_progress

__all__ = ["predict"]


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
    default="5",
    show_default=True,
    help="Labels for each point, or all; at most K are written.",
)
@click.option("-o", "--out", type=OutputPath(allow_dash=True), default="-", show_default=True, help="The scores file.")
@click.option(
    "--output",
    type=click.Choice(OUTPUTS),
    help="Scores, by which labels are ranked: the probability p, integrated over the posterior (bmlpl: over the "
    "activations of topics), or the mean utility (bmlpl: −log(1 − p)).  [default: probability; bmlpl, and models "
    "trained with --ranking utility: utility]",
)
@click.option("--no-calibration", is_flag=True, help="Write probabilities as they are before their calibration.")
@click.option("--with-std", is_flag=True, help="Add the predictive standard deviation: label:score:std.")
@click.option(
    "--memory",
    type=click.IntRange(1),
    default=MEMORY,
    show_default=True,
    help="Memory limit of scoring, in megabytes, besides the model.",
)
@quiet_option
def predict(model, data, k, out, output, no_calibration, with_std, memory, quiet):
    """Write the labels of highest score for each point in DATA, with the model in the folder MODEL.

    DATA is a file in the format of the Extreme Classification Repository or in libsvm format (also .gz, or - for
    standard input), or a folder with test.txt or test.svm; its labels must be well-formed but do not matter. Points in
    libsvm format may have fewer features than the model; features that no training point had are ignored. The scores
    file has the header `N K` and a line for each point, `label:score ...`, best first.

    \b
    Examples:
      xmlgp predict models/bibtex data/bibtex/test.txt -k 5 -o bibtex.scores
      zcat new.txt.gz | xmlgp predict models/bibtex - --with-std | head
    """
    predictor = _open_predictor(model)
    if no_calibration:
        predictor.calibration = None
    header, blocks = read_blocks(locate(data, "test"), predictor.feature_count, lambda text: note(text, quiet))
    try:
        predictor.check(header.D)
    except SettingsError as error:
        raise SettingsError(f"{data}: {error}") from None
    if header.K not in (0, predictor.label_count):
        labels = "1 label" if header.K == 1 else f"{header.K} labels"
        note(f"{data} has {labels}, but the model was trained on {predictor.label_count}", quiet)

    def scored(bar):
        for _, block in blocks:
            for scores in predictor.top(block.features, k, output, with_std, memory):
                yield scores
                bar.update(scores.N)

    with terminal_progress(quiet)("predict", header.N, " points") as bar, open_output(out) as stream:
        write_scores(stream, header.N, predictor.label_count, scored(bar))


def _open_predictor(model):
    """Return the predictor; the error of a folder without one mentions an unfinished run."""
    try:
        return ModelFolder.read(model, open_predictor)
    except ModelFolderError as error:
        if readable_run(model) is None:
            raise
        raise ModelFolderError(f"{error}; the folder has an unfinished run, see `{show_command(model)}`") from None
