"""Estimators whose parameters are the settings of a model, and how a model folder becomes one."""

from __future__ import annotations

import dataclasses
import inspect
import os
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xmlgp.api.trained_model import load
from xmlgp.estimators.estimator import Estimator
from xmlgp.models.fields import Settings, help_of, setting
from xmlgp.models.model import Model

__all__ = ["load_estimator", "parameters_of", "with_settings_of"]

Kind = TypeVar("Kind", bound=type[Estimator])

#: The estimator of each model, by the model's name.
KINDS: dict[str, type[Estimator]] = {}

#: The parameters that are no settings.
OTHERS = {
    "n_jobs": (int | None, setting(None, "Threads. −1 is one for each core, −2 one less.", if_unset="as −1")),
    "keep_points": (bool, setting(True, "Keep the training points in the model, for `xmlgp.learn`.")),
}

#: The width of a docstring, and how the lines about a parameter begin.
WIDTH = 112
INDENTED: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}

#: The type of `random_state`, which takes the place of the setting `seed`.
RANDOM_STATE = int | np.random.RandomState | None


def with_settings_of(model: Model) -> Callable[[Kind], Kind]:
    """Return a decorator that gives an estimator a parameter for each setting of a model, and describes them.

    scikit-learn reads the parameters from the signature, so it is explicit.
    """
    fields = {spec.name: (spec.type, spec) for spec in dataclasses.fields(model.settings)}
    _, seed = fields.pop("seed")
    parameters = fields | {"random_state": (RANDOM_STATE, seed)} | OTHERS

    def decorate(kind: Kind) -> Kind:
        kind.model = model
        KINDS[model.name] = kind
        kind.__annotations__ = {name: type_ for name, (type_, _) in parameters.items()}
        lines = [inspect.cleandoc(kind.__doc__ or ""), "", "Parameters", "----------"]
        for name, (_, spec) in parameters.items():
            setattr(kind, name, spec.default)
            lines += [f"{name} : default {spec.default!r}", *textwrap.wrap(help_of(spec), WIDTH, **INDENTED)]
        kind.__doc__ = "\n".join(lines)
        # It changes the class itself.
        dataclasses.dataclass(kw_only=True, eq=False, repr=False)(kind)
        return kind

    return decorate


def parameters_of(settings: Settings) -> dict[str, Any]:
    """Return settings as parameters of an estimator."""
    parameters = settings.mapping()
    parameters["random_state"] = parameters.pop("seed")
    return parameters


def load_estimator(path: str | os.PathLike[str]) -> Estimator:
    """Return the fitted estimator of the model in a folder, which `xmlgp train` or `save` has written.

    It is an `MLGPFClassifier`, a `BMLPLClassifier` or a `GPCClassifier`, whose parameters are the settings in the
    folder. It predicts what `xmlgp predict` does, and leaves the folder as it is. For the safety of the folder and for
    errors see `xmlgp.load`.
    """
    model = load(path)
    model.folder = None
    estimator = KINDS[model.settings.model](**parameters_of(model.settings))
    estimator.model_ = model
    return estimator
