"""`xmlgp show`: describe a model folder."""

import dataclasses
import json

import click

from xmlgp.cli.options import learn_command, train_command
from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import find_writer
from xmlgp.models import MODELS
from xmlgp.runs.interrupted import InterruptedRun
from xmlgp.settings.fields import in_words

__all__ = ["show"]

#: Batches of learning on that are listed one by one, the last ones.
BATCHES = 10


@click.command(short_help="Describe a model folder.")
@click.argument("model", type=click.Path())
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole description, with the training history, as JSON."
)
def show(model, as_json):
    """Describe the folder MODEL: its stage, data, settings, arrays and training.

    For a run that is in progress or was interrupted, it shows how far the run was at its last checkpoint.

    \b
    Example:
      xmlgp show models/bibtex
    """
    run, damage = _interrupted(model)
    try:
        folder = ModelFolder(model)
    except ModelFolderError:
        if ModelFolder.exists(model) or not (run or damage):
            raise
        state = _state(model, run, damage)
        if damage:
            raise ModelFolderError(f"{model}: there is no model here yet (no model.json), but {state}") from None
        if as_json:
            click.echo(json.dumps({"interrupted": _facts(model, run, damage)}, indent=1, ensure_ascii=False))
        else:
            click.echo(f"{model}: no model yet, but {state}")
            _settings(run.settings)
        return
    description = folder.description
    if as_json:
        if run or damage:
            description = description | {"interrupted": _facts(model, run, damage)}
        click.echo(json.dumps(description, indent=1, ensure_ascii=False))
        return
    data, history, record = description["data"], description.get("history"), MODELS[description["model"]]
    click.echo(f"{model}: {record.name}, {folder.stage}, written by {description['written_by']}")
    click.echo(f"data      N {data['N']}, D {data['D']}, K {data['K']}, fingerprint {data['fingerprint'][:12]}")
    _names(folder)
    if history:
        last = history[-1]
        workers = description.get("workers")
        where = f", on a Dask cluster of {workers} worker{'s' * (workers != 1)}" if workers else ""
        click.echo(f"training  {record.epochs(last)}, {last['seconds']:.1f} s, {record.objective_at(last)}{where}")
    batches = description.get("learned", [])
    if len(batches) > BATCHES:
        points = sum(batch["N"] for batch in batches[:-BATCHES])
        click.echo(f"learned   {len(batches) - BATCHES} batches of {points} points, and then")
    for batch in batches[-BATCHES:]:
        click.echo(f"learned   {record.describe_batch(batch)}")
    if folder.stage == "trained":
        _hyperparameters(folder, record)
    if folder.tuned:
        tuned = folder.tuned
        click.echo(f"tuned     {tuned}: {tuned.metric} {tuned.value:.5f} on {tuned.points} points")
    if run or damage:
        click.echo(f"run       {_state(model, run, damage)}")
    _settings(folder.settings)
    shapes = [(name, entry["shape"], entry["dtype"]) for name, entry in description["arrays"].items()]
    _table(
        "arrays", [(name, f"{'×'.join(map(str, shape)) or 'scalar':12} {dtype[1:]}") for name, shape, dtype in shapes]
    )


def _names(folder):
    """Print which names the model has, and how it reads text."""
    kinds = [kind.removeprefix("names.") for kind in folder.entries("names.")]
    if kinds:
        click.echo(f"names     of {' and '.join(sorted(kinds, reverse=True))}")
    try:
        vectorizer = folder.vectorizer
    except ModelFolderError:
        # The description is complete, so the rest can be shown.
        click.echo("text      damaged")
        return
    if vectorizer:
        analysis, columns = vectorizer.analysis, vectorizer.columns
        lengths = f"{analysis.shortest}" + (f"-{analysis.longest}" if analysis.longest > analysis.shortest else "")
        named = ", ".join(map(repr, columns.text))
        click.echo(f"text      {analysis.analyzer}, n-grams {lengths}, text in {named}, labels in {columns.labels!r}")


def _hyperparameters(folder, record):
    """Print the learned hyperparameters, where the model has some."""
    try:
        learned = record.hyperparameters(folder.arrays("parameters."))
        text = ", ".join(f"{symbol} {value:.4g}" for symbol, value in dict(learned).items())
    except (ModelFolderError, LookupError, TypeError, ValueError):
        # The description is complete, so the rest can be shown.
        text = "damaged"
    if text:
        click.echo(f"kernel    {text}")


def _interrupted(model):
    """Return the interrupted run or None, and why its checkpoint cannot be read or None."""
    try:
        return InterruptedRun.read(model), None
    except (ModelFolderError, OSError) as error:
        return None, f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _state(model, run, damage):
    """Return the state of an interrupted run in words."""
    if damage:
        return f"an interrupted run that cannot be resumed: {damage}"
    writer = find_writer(model)
    if writer:
        return f"a run by {writer}, {run.where} at its last checkpoint"
    command = train_command("DATA", model, "--resume")
    if run.learns:
        command = learn_command(model, "DATA")
    return f"a run that was interrupted {run.where}; resume with `{command}`"


def _facts(model, run, damage):
    """Return the same for programs."""
    if damage:
        return {"damage": damage}
    facts = {name: getattr(run, name) for name in ("step", "steps", "seconds", "where", "cores", "data")}
    return {"writer": find_writer(model)} | facts | {"settings": run.settings.mapping()}


def _settings(settings):
    """Print settings; for those that are unset, what decides instead, and those that have no effect as such."""
    unset = {spec.name: f"default: {spec.metadata['if_unset']}" for spec in dataclasses.fields(settings)}
    unused = settings.unused()
    rows = []
    for name, value in settings.mapping().items():
        text = unset[name] if value is None else in_words(value)
        rows.append((name, f"no effect with {unused[name]}" if name in unused else text))
    _table("settings", rows)


def _table(title, rows):
    click.echo(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:{width}}  {value}")
