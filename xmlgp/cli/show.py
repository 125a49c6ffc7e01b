"""`xmlgp show`: describe a model folder."""

import json

import click
from click.formatting import wrap_text

from xmlgp.cli import with_options
from xmlgp.cli.options import NonEmptyPath, command_line
from xmlgp.errors import ModelFolderError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import find_writer
from xmlgp.models import MODELS, settings_in_words
from xmlgp.runs.interrupted import InterruptedRun
from xmlgp.text.transformer import Transformer

__all__ = ["show"]

WIDTH = 100

#: Batches of learning on that are listed one by one, the last ones.
BATCHES = 10


@click.command()
@click.argument("model", type=NonEmptyPath())
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
    run, facts, state = _interrupted(model)
    try:
        folder = ModelFolder(model)
    except ModelFolderError:
        if ModelFolder.exists(model) or not state:
            raise
        if not run:
            raise ModelFolderError(f"{model}: there is no model here yet (no model.json), but {state}") from None
        folder = None
    if as_json:
        description = (folder.description if folder else {}) | ({"interrupted": facts} if state else {})
        click.echo(json.dumps(description, indent=1, ensure_ascii=False))
    elif folder:
        click.echo(f"{model}: {folder.settings.model}, {folder.stage}, written by {folder.description['written_by']}")
        for title, text in [*_lines(folder), ("run", state)]:
            if text:
                click.echo(f"{title:8}  {text}")
        _print_settings(folder.settings, folder.description["data"], folder.description.get("learned", ()))
        arrays = folder.description["arrays"].items()
        shapes = [(name, "×".join(map(str, entry["shape"])), entry["dtype"][1:]) for name, entry in arrays]
        _print_table("arrays", [(name, f"{shape or 'scalar':12} {dtype}") for name, shape, dtype in shapes])
    else:
        click.echo(f"{model}: no model yet, but {state}")
        _print_settings(run.settings, run.data)


def _lines(folder):
    """Yield titles and texts about a model; a text may be empty."""
    description = folder.description
    record = MODELS[folder.settings.model]
    data = description["data"]
    history = description.get("history")
    batches = description.get("learned", [])
    dense = f", dense {' + '.join(map(str, data['dense']))}" if "dense" in data else ""
    yield "data", f"N {data['N']}, D {data['D']}{dense}, K {data['K']}, fingerprint {data['fingerprint'][:12]}"
    kinds = [kind for kind in ("labels", "features") if f"names.{kind}" in folder.entries("names.")]
    preferred = "; preferred labels of a vocabulary" * ("names.preferred" in folder.entries("names."))
    yield "names", kinds and f"of {' and '.join(kinds)}{preferred}"
    yield "text", _unless_damaged(lambda: folder.vectorizer and _reading(folder.vectorizer))
    if history:
        last = history[-1]
        workers = description.get("workers")
        where = f", on a Dask cluster of {workers} worker{'s' * (workers != 1)}" if workers else ""
        yield "training", f"{record.epochs(last)}, {last['seconds']:.1f} s, {record.objective_at(last)}{where}"
    if folder.held_out:
        when = ", before it learned more" * bool(batches)
        yield "measured", folder.held_out.precision(data["K"]) + when if data["K"] > 1 else ""
        yield "", folder.held_out.reliability()
    yield from record.details(description) if history else ()
    if len(batches) > BATCHES:
        points = sum(batch["N"] for batch in batches[:-BATCHES])
        yield "learned", f"{len(batches) - BATCHES} batches of {points} points, and then"
    for batch in batches[-BATCHES:]:
        objective = f": {record.objective_at(batch['history'][-1])}" if batch["history"] else ""
        yield "learned", record.describe_batch(batch) + objective
    if folder.stage == "trained":
        yield "kernel", _unless_damaged(lambda: _learned(record.hyperparameters(folder.arrays("parameters."))))
    if folder.tuned:
        yield "tuned", f"{folder.tuned}: {folder.tuned.metric} {folder.tuned.value:.5f} on {folder.tuned.points} points"


def _unless_damaged(text):
    """Return the text of a function; the description is complete, so the rest can be shown if there is none."""
    try:
        return text()
    except (ModelFolderError, LookupError, TypeError, ValueError):
        return "damaged"


def _reading(vectorizer):
    if isinstance(vectorizer, Transformer):
        return "by a vectorizer of scikit-learn"
    analysis = vectorizer.analysis
    columns = vectorizer.columns
    lengths = "-".join(map(str, dict.fromkeys((analysis.shortest, analysis.longest))))
    named = ", ".join(map(repr, columns.text))
    limits = {"min_count": f"min count {analysis.min_count}", "max_features": f"max features {analysis.max_features}"}
    limits["stop_words"] = f"{len(analysis.stop_words)} stop words"
    parts = [analysis.analyzer, f"n-grams {lengths}", *(limits[name] for name in analysis.limits())]
    if analysis.encoder:
        parts.append(f"encoder {analysis.encoder.name}")
    labels = [*map(repr, columns.labels), *(f"columns {pattern!r}" for pattern in columns.flags)]
    return ", ".join([*parts, f"text in {named}", f"labels in {', '.join(labels)}"])


def _learned(hyperparameters):
    return ", ".join(f"{symbol} {value:.4g}" for symbol, value in dict(hyperparameters).items())


def _interrupted(model):
    """Return an interrupted run, facts about it for programs, and its state in words; None if there is none."""
    try:
        run = InterruptedRun.read(model)
    except (ModelFolderError, OSError) as error:
        damage = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else with_options(str(error))
        return None, {"damage": damage}, f"an interrupted run that cannot be resumed: {damage}"
    if run is None:
        return None, None, None
    writer = find_writer(model)
    facts = {name: getattr(run, name) for name in ("step", "steps", "seconds", "where", "cores", "data")}
    facts = {"writer": writer} | facts | {"settings": run.settings.mapping()}
    if writer:
        return run, facts, f"a run by {writer}, {run.where} at its last checkpoint"
    if run.learns:
        command = command_line("learn", [model, "DATA"])
    else:
        command = command_line("train", ["DATA", model], more={"--resume": True})
    return run, facts, f"a run that was interrupted {run.where}; resume with `{command}`"


def _print_settings(settings, *about):
    """Print the settings, and at the end the names of those that have no effect."""
    unused = settings.unused()
    texts = settings_in_words(settings, *about)
    _print_table("settings", [(name, text) for name, text in texts.items() if name not in unused])
    for reason in dict.fromkeys(unused.values()):
        names = ", ".join(name for name in texts if unused.get(name) == reason)
        click.echo(wrap_text(f"no effect with {reason}: {names}", WIDTH, "  ", "    "))


def _print_table(title, rows):
    click.echo(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:{width}}  {value}")
