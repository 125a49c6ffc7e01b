"""`xmlgp show`: describe a model folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.formatting import wrap_text

from xmlgp.cli import with_options
from xmlgp.cli.help import Subcommand
from xmlgp.cli.options import NonEmptyPath
from xmlgp.errors import ModelFolderError
from xmlgp.label_index.clusters import LABEL_INDEX, LabelIndex
from xmlgp.model import Hyperparameters
from xmlgp.model_folder import words
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import find_writer
from xmlgp.models import MODELS, settings_in_words
from xmlgp.runs.interrupted import InterruptedRun
from xmlgp.settings.fields import Settings

__all__ = ["show"]

WIDTH = 100

#: What reading untrusted arrays and names may raise.
DAMAGE = (ModelFolderError, LookupError, TypeError, ValueError)


@click.command(cls=Subcommand)
@click.argument("model", type=NonEmptyPath())
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the whole description, with the training history and learned hyperparameters, as JSON.",
)
def show(model: str, as_json: bool) -> None:
    """Describe the folder MODEL: its stage, data, settings, arrays and training.

    For a run that is in progress or was interrupted, it shows how far the run was at its last checkpoint.

    \b
    Example:
      xmlgp show models/bibtex
    """
    run = _interrupted(model)
    folder = _folder(model, run)
    if as_json:
        description = folder.description | _for_programs(folder) if folder else {}
        if run:
            description = description | {"interrupted": run.facts}
        click.echo(json.dumps(description, indent=1, ensure_ascii=False))
    elif folder:
        _print_folder(folder, run.state if run else "")
    elif run and run.settings:
        click.echo(f"{model}: no model yet, but {run.state}")
        _print_settings(run.settings, run.facts["data"])


class _Run(NamedTuple):
    """An interrupted run: its settings unless it is damaged, facts about it for programs, and its state in words."""

    settings: Settings | None
    facts: dict[str, Any]
    state: str


def _interrupted(model: str) -> _Run | None:
    """Return the interrupted run in a folder, if there is one."""
    try:
        run = InterruptedRun.read(model)
    except (ModelFolderError, OSError) as error:
        damage = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else with_options(str(error))
        return _Run(None, {"damage": damage}, f"an interrupted run that cannot be resumed: {damage}")
    if run is None:
        return None
    writer = find_writer(model)
    facts = {name: getattr(run, name) for name in ("step", "steps", "seconds", "where", "cores", "data")}
    facts = {"writer": writer, **facts, "settings": run.settings.mapping()}
    if writer:
        return _Run(run.settings, facts, f"a run by {writer}, {run.where} at its last checkpoint")
    return _Run(run.settings, facts, f"a run that was interrupted {run.where}; its command resumes it")


def _folder(model: str, run: _Run | None) -> ModelFolder | None:
    """Return the model in a folder, or None if there is only an interrupted run."""
    try:
        return ModelFolder(model)
    except ModelFolderError:
        if ModelFolder.exists(model) or not run:
            raise
        if not run.settings:
            raise ModelFolderError(f"{model}: there is no model here yet (no model.json), but {run.state}") from None
        return None


def _print_folder(folder: ModelFolder, state: str) -> None:
    description = folder.description
    click.echo(f"{folder.path}: {folder.settings.model}, {folder.stage}, written by {description['written_by']}")
    for title, text in [*_lines(folder), *_learned(folder), *_posterior(folder), ("run", state)]:
        for number, line in enumerate(text.splitlines()):
            click.echo(f"{'' if number else title:8}  {line}")
    _print_settings(folder.settings, description["data"])
    arrays = description["arrays"].items()
    shapes = [(name, "×".join(map(str, entry["shape"])), entry["dtype"][1:]) for name, entry in arrays]
    _print_table("arrays", [(name, f"{shape or 'scalar':12} {dtype}") for name, shape, dtype in shapes])


def _lines(folder: ModelFolder) -> Iterator[tuple[str, str]]:
    """Yield titles and texts about the data and the training of a model; a text may be empty."""
    description = folder.description
    data = description["data"]
    dense = f", dense {' + '.join(map(str, data['dense']))}" if "dense" in data else ""
    unknown = f", unknown pairs {data['unknown']}" if "unknown" in data else ""
    sizes = f"N {data['N']}, D {data['D']}{dense}, K {data['K']}{unknown}"
    yield "data", f"{sizes}, fingerprint {data['fingerprint'][:12]}"
    yield "names", words.names(description)
    yield "text", _unless_damaged(lambda: folder.vectorizer.describe() if folder.vectorizer else "")
    yield "training", words.training(description)
    held_out = folder.held_out
    if held_out:
        yield "measured", words.measured(description, held_out)
        yield "", _unless_damaged(lambda: held_out.worth_of_dense(folder.block_names))
        yield "", held_out.reliability()


def _learned(folder: ModelFolder) -> Iterator[tuple[str, str]]:
    """Yield what a model has learned since its training."""
    if folder.description.get("history"):
        yield from MODELS[folder.settings.model].details(folder.description)
    for text in words.learned(folder.description):
        yield "learned", text


def _posterior(folder: ModelFolder) -> Iterator[tuple[str, str]]:
    """Yield the learned hyperparameters of a model, and its rule of assignment."""
    if folder.stage == "trained":
        yield "kernel", _unless_damaged(lambda: "\n".join(_in_words(_hyperparameters(folder))))
    yield "index", _unless_damaged(lambda: _index(folder))
    if folder.tuned:
        yield "tuned", f"{folder.tuned}: {folder.tuned.metric} {folder.tuned.value:.5f} on {folder.tuned.points} points"


def _hyperparameters(folder: ModelFolder) -> Hyperparameters:
    data = folder.description["data"]
    blocks = dict(zip(folder.block_names, data.get("dense", []), strict=True))
    widths = {"words": data["D"]} | blocks
    return MODELS[folder.settings.model].hyperparameters(folder.arrays("parameters."), widths)


def _for_programs(folder: ModelFolder) -> dict[str, Any]:
    """Return the intervals of measures, and what is read from arrays unless they are damaged."""
    additions: dict[str, Any] = {}
    if folder.held_out:
        additions["intervals"] = folder.held_out.for_programs(folder.description["data"]["K"])
    if folder.stage == "trained":
        with contextlib.suppress(*DAMAGE):
            additions["hyperparameters"] = _hyperparameters(folder)
    return additions


def _in_words(hyperparameters: Hyperparameters) -> Iterator[str]:
    """Yield a line for each part of the model, or one for a model without parts."""
    whole = {name: value for name, value in hyperparameters.items() if not isinstance(value, Mapping)}
    parts = {name: value for name, value in hyperparameters.items() if isinstance(value, Mapping)}
    for part, values in {"": whole, **parts}.items():
        text = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        if text:
            yield f"{part}: {text}" if part else text


def _index(folder: ModelFolder) -> str:
    arrays = {name: folder.array(f"parameters.{name}") for name in LABEL_INDEX.arrays}
    index = LabelIndex.of({name: array for name, array in arrays.items() if array is not None})
    return index.describe() if index else ""


def _unless_damaged(text: Callable[[], str]) -> str:
    """Return the text of a function; the description is complete, so the rest can be shown if there is none."""
    try:
        return text()
    except DAMAGE:
        return "damaged"


def _print_settings(settings: Settings, *about: Any) -> None:  # noqa: ANN401, as the model says
    """Print the settings, and at the end the names of those that have no effect."""
    unused = settings.unused()
    texts = settings_in_words(settings, *about)
    _print_table("settings", [(name, text) for name, text in texts.items() if name not in unused])
    for reason in dict.fromkeys(unused.values()):
        names = ", ".join(name for name in texts if unused.get(name) == reason)
        click.echo(wrap_text(f"no effect with {reason}: {names}", WIDTH, "  ", "    "))


def _print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    click.echo(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:{width}}  {value}")
