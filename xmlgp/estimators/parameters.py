"""The parameters of an estimator, which are the settings of its model."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xmlgp.models.fields import Settings, help_of, setting
from xmlgp.models.model import Model

if TYPE_CHECKING:
    from xmlgp.estimators.estimator import Estimator

__all__ = ["parameters_of", "with_settings_of"]

Kind = TypeVar("Kind", bound="type[Estimator]")

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
        kind.kinds[model.name] = kind
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
