"""`xmlgp show`: describe a model folder."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from xmlgp.api.interrupted import InterruptedRun
from xmlgp.api.trained_model import TrainedModel, describe, load, open_model, topics_of
from xmlgp.cli import with_options
from xmlgp.cli.options import NonEmptyPath
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.table import settings_in_words
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.plurals import counted

__all__ = ["READABLE", "show"]

#: Topics that a person reads: if there are more, those that are most alike are joined.
READABLE = 40

#: Labels below this share of the highest weight of their topic are noise to a person.
LEAST_SHARE = 0.01


@click.command()
@click.argument("model", type=NonEmptyPath())
@click.option("--json", "as_json", is_flag=True, help="Print all that model.json says, with the training history.")
@click.option("--topics", is_flag=True, help="Print the labels of highest weight in each topic of a bmlpl model.")
def show(model: str, as_json: bool, topics: bool) -> None:
    """Describe the folder MODEL: its stage, data, training and settings.

    For a run that is in progress or was interrupted, it shows how far the run was at its last checkpoint.

    \b
    Examples:
      xmlgp show models/bibtex
      xmlgp show models/bibtex-topics --topics
    """
    if as_json and topics:
        raise click.UsageError("--json and --topics exclude each other.")
    if topics:
        lines = list(_topics(load(model)))
    elif as_json:
        lines = [json.dumps(ModelFolder(model).description, indent=1, ensure_ascii=False)]
    else:
        run = _run(model)
        if run and not ModelFolder.exists(model):
            lines = [f"{model}: no model yet, but {run}"]
        else:
            lines = ModelFolder.read(model, lambda folder: list(_description(folder, run)))
    for line in lines:
        click.echo(line)


def _description(folder: ModelFolder, run: str) -> Iterator[str]:
    description = folder.description
    yield f"{folder.path}: {folder.settings.model}, {folder.stage}, written by {description['written_by']}"
    rows = describe(open_model(folder)) if folder.stage == "trained" else {}
    for word, text in (rows | ({"run": run} if run else {})).items():
        yield f"{word:12}{text}"
    yield "settings"
    texts = settings_in_words(folder.settings, description["data"])
    unused = folder.settings.unused()
    for name, text in texts.items():
        yield f"  {name:20}{text}" + (f" (no effect with {unused[name]})" if name in unused else "")


def _run(model: str) -> str:
    """Return the state of the interrupted run in a folder in words; nothing if there is none."""
    try:
        run = InterruptedRun.read(model)
    except (ModelFolderError, OSError) as error:
        return f"an interrupted run that cannot be resumed: {with_options(str(error))}"
    if run is None:
        return ""
    return f"an unfinished run, {run.where} at its last checkpoint; run the same command again to resume"


def _topics(model: TrainedModel) -> Iterator[str]:
    """Yield each topic, the most frequent first, and its labels with their probability in it."""
    width = len(str(model.data["K"] - 1))
    names = model.names.shown
    for topic in topics_of(model, most=READABLE):
        others = len(topic.joined) - 1
        joined = f", joined with {counted(others, 'similar one')}" if others else ""
        yield f"topic {topic.number}{joined} ({100 * topic.share:.2f} %)"
        for label, weight in zip(topic.labels, topic.weights, strict=True):
            if weight >= LEAST_SHARE * topic.weights[0]:
                name = f"  {names[label]}" if names else ""
                yield f"  {weight:.4f}  {label:{width}}{name}"
