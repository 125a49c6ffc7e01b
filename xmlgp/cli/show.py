"""`xmlgp show`: tell what a model folder holds."""

import json
import shlex

import click

from xmlgp.errors import ModelFolderError
from xmlgp.gp.log_parameters import exponential
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import writer_in
from xmlgp.runs.interrupted import Unfinished
from xmlgp.training.history import epochs_in_words, objective_in_words

__all__ = ["show"]


@click.command(short_help="Tell what a model folder holds.")
@click.argument("model", type=click.Path())
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole description, with the training history, as JSON."
)
def show(model, as_json):
    """Tell what the folder MODEL holds: its stage, data, settings, arrays and training.

    Of a training that goes on there, or was interrupted, it tells how far it had come at its last checkpoint.

    \b
    Example:
      xmlgp show models/bibtex
    """
    unfinished, damage = _unfinished(model)
    try:
        folder = ModelFolder(model)
    except ModelFolderError:
        if ModelFolder.exists(model) or not (unfinished or damage):
            raise
        begun = _begun(model, unfinished, damage)
        if damage:
            raise ModelFolderError(f"{model}: there is no model here yet (no model.json), but {begun}") from None
        if as_json:
            click.echo(json.dumps({"unfinished": _facts(model, unfinished, damage)}, indent=1, ensure_ascii=False))
        else:
            click.echo(f"{model}: no model yet, but {begun}")
            _settings(unfinished.settings.mapping())
        return
    description = folder.description
    if as_json:
        if unfinished or damage:
            description = description | {"unfinished": _facts(model, unfinished, damage)}
        click.echo(json.dumps(description, indent=1, ensure_ascii=False))
        return
    data, history = description["data"], description.get("history")
    click.echo(f"{model}: {description['model']}, {folder.stage}, written by {description['written_by']}")
    click.echo(f"data      N {data['N']}, D {data['D']}, K {data['K']}, fingerprint {data['fingerprint'][:12]}")
    if history:
        last = history[-1]
        epochs = epochs_in_words(last, description["model"])
        click.echo(f"training  {epochs}, {last['seconds']:.1f} s, {objective_in_words(last, description['model'])}")
    if description["model"] == "gpc" and folder.stage == "trained":
        click.echo(f"kernel    {_kernel(folder)}")
    if unfinished or damage:
        click.echo(f"begun     {_begun(model, unfinished, damage)}")
    _settings(description["settings"])
    shapes = [(name, entry["shape"], entry["dtype"]) for name, entry in description["arrays"].items()]
    _table(
        "arrays", [(name, f"{'×'.join(map(str, shape)) or 'scalar':12} {dtype[1:]}") for name, shape, dtype in shapes]
    )


def _kernel(folder):
    """Return the hyperparameters that gpc learned, in the units of its (standardised) features."""
    names = {"σ²": "kernel.se.log_variance", "ℓ": "kernel.se.log_lengthscale", "ν²": "kernel.noise.log_variance"}
    try:
        found = {symbol: folder.array(f"parameters.{name}") for symbol, name in names.items()}
    except ModelFolderError:
        found = {"": None}
    if any(value is None or value.shape or value.dtype.kind != "f" for value in found.values()):
        # The description is whole, and what else it says can be shown.
        return "damaged"
    return ", ".join(f"{symbol} {exponential(value):.4g}" for symbol, value in found.items())


def _unfinished(model):
    """Return the training that is not finished, or None, and why it cannot be read, or None."""
    try:
        return Unfinished.read(model), None
    except (ModelFolderError, OSError) as error:
        return None, f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _begun(model, unfinished, damage):
    """Return what there is to say of a training that is not finished."""
    if damage:
        return f"what cannot be gone on with: {damage}"
    writer = writer_in(model)
    if writer:
        return f"a training by {writer}, which was {unfinished.where} when it last wrote a checkpoint"
    command = shlex.join(["xmlgp", "train", "DATA", model, "--resume"])
    return f"a training that was interrupted {unfinished.where}; `{command}` goes on with it"


def _facts(model, unfinished, damage):
    """Return the same for programs."""
    if damage:
        return {"damage": damage}
    facts = {name: getattr(unfinished, name) for name in ("step", "steps", "seconds", "where", "cores", "data")}
    return {"writer": writer_in(model)} | facts | {"settings": unfinished.settings.mapping()}


def _settings(mapping):
    _table("settings", [(name, "-" if value is None else str(value)) for name, value in mapping.items()])


def _table(title, rows):
    click.echo(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:{width}}  {value}")
