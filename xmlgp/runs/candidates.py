"""The settings that a search compares, and the recipe that it writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from xmlgp.data.dataset import Dataset
from xmlgp.errors import UsageError
from xmlgp.models import Recipe
from xmlgp.runs.interrupted import Request
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.settings.fields import Settings, in_words

__all__ = ["DEFAULT", "Candidate", "candidates_of", "write_recipe"]

#: The name of the settings that the others are compared with.
DEFAULT = "default"

#: Most combinations of values: each is trained several times.
MOST = 1000


class Candidate(NamedTuple):
    """Complete settings, and in words what distinguishes them from the default ones."""

    name: str
    settings: Settings


def candidates_of(
    settings: Mapping[str, Any], recipe: Recipe | None, dataset: Dataset, model: str, note: Callable[[str], object]
) -> list[Candidate]:
    """Return the default settings, then all other combinations of the values of settings that have lists of these.

    The default are the recipe and the settings with single values; `model` is that for the format of the data.
    UsageError is raised if there is nothing to compare, or far too much; SettingsError as by `Request.settings`.
    """
    lists = {name: value for name, value in settings.items() if isinstance(value, list | tuple)}
    common = {name: value for name, value in settings.items() if name not in lists}
    if math.prod(map(len, lists.values())) > MOST:
        raise UsageError(f"There are more than {MOST} combinations of values; give fewer.")
    default, notes = Request(common, recipe, model).settings(dataset)
    present = default.with_model()
    names = {default: DEFAULT}
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        combination, _ = Request({**common, **chosen}, recipe, model).settings(dataset)
        words = [f"{name}={in_words(value)}" for name, value in chosen.items() if present.get(name) != value]
        names.setdefault(combination, " ".join(words))
        unused = combination.unused()
        notes += [f"{name} has no effect with {unused[name]}" for name in lists if name in unused]
    for text in dict.fromkeys(notes):
        note(text)
    if len(names) == 1:
        raise UsageError("There is nothing to compare: give a setting values that differ from the default.")
    return [Candidate(name, combination) for combination, name in names.items()]


def write_recipe(file: Path, settings: Settings, shape: tuple[int, int, int], comment: str) -> None:
    """Write settings as a recipe: those that are not the defaults of the model for data of this shape."""
    defaults = type(settings)().for_shape(*shape).mapping()
    changed = {name: value for name, value in settings.mapping().items() if value != defaults[name]}
    content = yaml.safe_dump({"settings": {"model": settings.model, **changed}}, sort_keys=False)
    with atomic_write(file) as stream:
        stream.write(f"# {comment}\n{content}".encode())
