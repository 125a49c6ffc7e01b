"""The methods of a model: the entries of its table, and the settings that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, ClassVar

from xmlgp.models.fields import EPOCHS_LIMIT, Settings, setting

__all__ = ["InferenceMethod", "InferenceSettings", "Method", "inference_setting", "iterations_setting"]


@dataclass(frozen=True)
class Method:
    """One way to train a model: an entry of its table.

    `implementation` is a class, as "module:class". It is imported when training starts, because settings are loaded by
    every command and these modules load SciPy and Numba. Only this method, and others that list them, read `settings`.
    """

    implementation: str
    settings: tuple[str, ...] = field(default=(), kw_only=True)

    def load(self) -> Any:
        """Return the class that implements the method."""
        return resolve_name(self.implementation)

    def unused(self, methods: Mapping[str, Method]) -> set[str]:
        """Return the settings that only others of these methods (mapping by name) read."""
        return {name for method in methods.values() for name in method.settings} - set(self.settings)


@dataclass(frozen=True)
class InferenceMethod(Method):
    """An inference method, a subclass of `Inference`, with its summary and its default number of iterations."""

    summary: str
    iterations: int


def inference_setting(default: str, methods: Mapping[str, InferenceMethod]) -> Any:
    """Return the field of the inference method, given the model's table."""
    *others, last = (f"{name} ({method.summary})" for name, method in methods.items())
    return setting(default, f"Inference method: {', '.join(others)} or {last}.", choices=methods)


def iterations_setting(methods: Mapping[str, InferenceMethod], remark: str) -> Any:
    """Return the field of the number of iterations; the remark says what one is, or when there are fewer."""
    defaults = ", ".join(f"{method.iterations} with {name}" for name, method in methods.items())
    return setting(None, f"Iterations, {remark}.", minimum=1, maximum=EPOCHS_LIMIT, if_unset=defaults)


class InferenceSettings(Settings):
    """Settings of a model with a table of inference methods; their fields are `inference` and `iterations`."""

    inferences: ClassVar[Mapping[str, InferenceMethod]]

    @property
    def method(self) -> InferenceMethod:
        """The chosen `InferenceMethod`."""
        return self.inferences[self.inference]

    @property
    def passes(self) -> int:
        """Largest number of iterations."""
        return self.iterations or self.method.iterations

    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect with the chosen inference method; see `Settings.unused`."""
        return dict.fromkeys(self.method.unused(self.inferences), f"inference={self.inference}")
