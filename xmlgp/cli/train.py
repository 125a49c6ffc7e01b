"""`xmlgp train`: train a model."""

import math
import os
import shlex

import click

from xmlgp.cli.options import SettingsCommand, cache_option, note, quiet_option, recipe_option, settings_options
from xmlgp.cli.usual_model import with_usual_model
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.gpc.variational import TOLERANCE
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import check_names, settings_from
from xmlgp.recipes import resolve
from xmlgp.runs.build import CHECKPOINT_SECONDS, open_preprocessed, train_model
from xmlgp.runs.interrupted import CHECKPOINT, Unfinished, describe_value
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import terminal_progress
from xmlgp.training.history import epochs_in_words, objective_in_words

__all__ = ["train"]

#: A year: more is a slip.
MOST_MINUTES = 525_600

#: Nats a point that the bound is below zero where nothing was learned: both classes are taken for equally likely, and a
#: tenth for what little the posterior costs.
WORTHLESS = 1.1 * math.log(2)


@click.command(cls=SettingsCommand, short_help="Train a model.")
@click.argument("data", type=click.Path(allow_dash=True))
@click.argument("model", type=click.Path(file_okay=False))
@recipe_option
@settings_options()
@click.option(
    "--resume/--no-resume",
    default=None,
    help="Go on with the training that was interrupted in MODEL, with its settings; or begin anew without it. When "
    "neither is given, go on with one of the same data and settings, and refuse to drop another that took a minute "
    "or more.",
)
@click.option(
    "--checkpoint-every",
    "minutes",
    type=click.FloatRange(0, MOST_MINUTES),
    callback=lambda context, option, minutes: _number(minutes),
    default=CHECKPOINT_SECONDS / 60,
    show_default=True,
    metavar="MINUTES",
    help="Time from one checkpoint to the next within an epoch; there is one at each epoch's end as well, unless that "
    "takes over a twentieth of the time. 0 for none at all.",
)
@cache_option
@quiet_option
def train(data, model, recipe, chosen, resume, minutes, cache, quiet):
    """Train a model of DATA into the folder MODEL.

    DATA is a file in the repository's text format or, with one label, in libsvm's (also .gz, or - for standard input),
    or a folder with train.txt or one *.svm. Where MODEL holds the result of `xmlgp preprocess` on the same data,
    training goes on from there with its settings. What was interrupted goes on from its last checkpoint with --resume,
    and ends in the same model.

    Of data in libsvm's format the model is gpc, unless --model or --recipe says otherwise.

    \b
    Examples:
      xmlgp train data/bibtex models/bibtex
      xmlgp train data/bibtex models/bibtex --resume
      xmlgp train data/bibtex models/bibtex-s --recipe s-LINEAR --epochs 20
      xmlgp train data/bibtex models/bibtex-se --kernel se+linear --no-ard -P 159 -M 200
    """
    progress = terminal_progress(quiet)
    dataset, format_ = read_dataset(locate(data, "train"), cache, progress)
    shape = (dataset.N, dataset.D, dataset.K)
    folder, unfinished = _model_of(model, dataset, quiet), Unfinished.read(model) if resume else None
    wanted = resolve(load_catalogue(), recipe, shape, chosen)[0].with_model() if recipe else chosen
    if unfinished:
        settings = _settings_of(unfinished, wanted, chosen, model)
    elif resume and _is_trained(model, folder, wanted, chosen):
        note(f"{model}: is trained, there is nothing to go on with", quiet)
        return
    elif folder and folder.stage == "preprocessed" and not recipe and _same_model(folder.settings, chosen):
        settings = settings_from(folder.settings.with_model() | chosen, model)
    else:
        settings, entry = resolve(
            load_catalogue(), recipe, shape, with_usual_model(chosen, recipe, format_, data, quiet)
        )
        if entry is not None and recipe:
            note(f"recipe {recipe} of the model {settings.model} with its settings for {entry.name}", quiet)

    for text in _of_no_use(settings, chosen, dataset):
        note(f"{model}: {text}", quiet)
    options = {"resume": resume, "every": 60 * minutes, "rate": chosen.get("learning_rate")}
    told = []

    def tell(text):
        told.append(text)
        note(f"{model}: {text}", quiet)

    options["tell"] = tell
    before = _state_of(model)
    try:
        folder = train_model(dataset, model, settings, progress, **options)
    except (Interrupted, KeyboardInterrupt) as error:
        left = _left(model)
        if left and isinstance(error, Interrupted):
            # A name that starts with a dash would be taken for an option.
            paths = [f"./{path}" if path.startswith("-") and path != "-" else path for path in (data, model)]
            error.advice = f"`{shlex.join(['xmlgp', 'train', *paths])} --resume` goes on {left.where}"
            error.advice += ", given the same data again" * (data == "-")
        raise
    except (NumericalError, OSError, MemoryError):
        left = _left(model)
        # Before training is begun or gone on with, what fails has nothing to do with it.
        if left and left.steps and (told or _state_of(model) != before):
            note(f"{model}: a checkpoint {left.where} is kept, --resume goes on from it", quiet)
        raise
    last = folder.description["history"][-1]
    epochs = epochs_in_words(last, settings.model)
    note(f"{model}: trained, {epochs} in {last['seconds']:.1f} s, {objective_in_words(last, settings.model)}", quiet)
    for text in _in_doubt(folder):
        note(f"{model}: {text}", quiet)
    validation = folder.description["validation"]
    if validation and settings.refit:
        ranked = f"nDCG@5 of held-out points was {validation[last['epoch'] - 1]['ndcg@5']:.2f} after as many epochs"
        note(f"{model}: {ranked}, the best of {len(validation)}", quiet)
    elif validation:
        note(f"{model}: the parameters are those of the epoch that ranked held-out points best", quiet)
    if "parameters.regression.weights" in folder.description["arrays"]:
        note(f"{model}: utilities are pooled with those of regression on all points", quiet)
    if "learning_rate" in last:
        note(f"{model}: trained with the learning rate {last['learning_rate']:g} at the end", quiet)


def _of_no_use(settings, chosen, dataset):
    """Yield what of the user's wishes comes to nothing, in words."""
    for name in sorted(settings.idle() & set(chosen)):
        yield f"--{name.replace('_', '-')} has no effect with --inference {settings.inference}"
    if settings.model == "bmlpl" and (settings.topics or 0) > dataset.K:
        yield f"there are {dataset.K} topics, as many as labels"
    if settings.model == "gpc" and dataset.labels.nnz in (0, dataset.N):
        yield f"all training points are of the {'second' if dataset.labels.nnz else 'first'} class"


def _in_doubt(folder):
    """Yield what speaks against a model of two classes that was trained, in words."""
    settings, history, N = folder.settings, folder.description["history"], folder.description["data"]["N"]
    if settings.model != "gpc":
        return
    advice = ", or another --learning-rate" if settings.inference == "svi-adadelta" else ""
    bounds = [epoch["bound"] for epoch in history]
    if bounds[-1] < -WORTHLESS * N:
        yield f"the bound is below that of guessing; try another --inference{advice}"
    elif len(bounds) == settings.passes > 1:
        # Of minibatches one estimate says little.
        tail = max(1, len(bounds) // 10)
        gain = sum(bounds[-tail:]) / tail - sum(bounds[-2 * tail : -tail]) / len(bounds[-2 * tail : -tail])
        if gain > TOLERANCE * N * tail:
            yield f"the bound was still rising; more --iterations would raise it further{advice}"


def _number(minutes):
    if math.isnan(minutes):  # which no range refuses
        raise click.BadParameter("nan is not a number of minutes.")
    return minutes


def _model_of(model, dataset, quiet):
    """Return the model folder if it was made of these data, or None; say if what is there cannot be read."""
    if ModelFolder.exists(model):
        try:
            ModelFolder(model)
        except ModelFolderError as error:
            note(f"{error}; a new model takes its place", quiet)
    return open_preprocessed(model, dataset)


def _settings_of(unfinished, wanted, chosen, model):
    """Return the settings of the training that is gone on with; another learning rate is all that may be wanted."""
    _check_same(unfinished.settings, wanted, chosen, f"{model}: the training that was interrupted")
    return unfinished.settings


def _is_trained(model, folder, wanted, chosen):
    """Return whether the model is trained as is wanted; refuse to take the place of one that is trained otherwise.

    `folder` is the model if it is of the same data, or None.
    """
    try:
        trained = ModelFolder(model)
    except ModelFolderError:
        return False
    if trained.stage != "trained":
        return False
    if folder is None:
        raise SettingsError(f"{model}: this is a model of other data; --no-resume begins anew without it")
    _check_same(trained.settings, wanted, chosen, f"{model}: this model")
    for name in trained.entries(""):
        trained.array(name)
    return True


def _check_same(settings, wanted, chosen, what):
    """Raise SettingsError where settings are not as wanted; the learning rate may be chosen anew at any time."""
    if _same_model(settings, wanted):
        check_names(wanted.keys() - {"model"}, what, settings.model)
    for name in _differing(settings, wanted):
        if name not in chosen or name != "learning_rate":
            was, now = (describe_value(mapping[name]) for mapping in (settings.with_model(), wanted))
            raise SettingsError(f"{what} has {name} {was}, not {now}; leave it out, or begin anew with --no-resume")


def _differing(settings, wanted):
    """Return the names of settings that are not as wanted."""
    if not _same_model(settings, wanted):
        return ["model"]
    was = settings.with_model()
    return [name for name, value in wanted.items() if value != was[name]]


def _same_model(settings, wanted):
    """Return whether settings are of the model that is wanted, if one is."""
    return wanted.get("model", settings.model) == settings.model


def _state_of(model):
    """Return what tells one checkpoint from another, or None."""
    try:
        return os.stat(os.path.join(model, CHECKPOINT)).st_mtime_ns
    except OSError:
        return None


def _left(model):
    """Return what training left to go on with, or None."""
    try:
        return Unfinished.read(model)
    except (ModelFolderError, OSError):
        return None
