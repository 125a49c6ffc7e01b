"""Settings: how a field is declared, checked and described, and the methods of a model that a setting chooses."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import Field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["EPOCHS_LIMIT", "InferenceMethod", "InferenceSettings", "Method", "Settings", "check", "describe"]
__all__ += ["from_text", "help_of", "in_words", "inference_setting", "iterations_setting", "kind", "setting"]

#: More epochs do not fit into the history.
EPOCHS_LIMIT = 10**6

#: Largest value of any other integer; a larger one is probably a typing error, and would overflow.
COUNT_LIMIT = 10**9


def setting(
    default: object, help_text: str, *, preprocess: bool = False, if_unset: str | None = None, **limits: object
) -> Any:
    """Return a dataclass field with its help text and limits as metadata.

    Preprocessing depends on the field if `preprocess` is true. `if_unset` describes None, which is not allowed without
    it. The limits are `choices`, `above`, or `minimum` and `maximum`, which is `COUNT_LIMIT` by default.
    """
    largest = None if limits.get("minimum") is None else COUNT_LIMIT
    limits = {"choices": None, "minimum": None, "maximum": largest, "above": None} | limits
    about = {"help": help_text, "preprocess": preprocess, "if_unset": if_unset}
    return dataclasses.field(default=default, metadata=about | limits)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a model: the base class of a frozen dataclass for each model, with fields made by `setting`.

    `model` is the model's name. SettingsError is raised for a value that is not allowed, with the name and the limits.
    """

    model: ClassVar[str]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of a setting; each model declares its own."""

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            check(spec, getattr(self, spec.name))

    def mapping(self) -> dict[str, Any]:
        """Return all settings as a mapping of names to values."""
        return dict(vars(self))

    def with_model(self) -> dict[str, Any]:
        """Return the same mapping with the model's name, as `model`, before them."""
        return {"model": self.model} | self.mapping()

    def for_shape(self, N: int, D: int, K: int) -> Settings:
        """Return the settings for a data set of this shape: those that are unset because it determines them are set."""
        return self

    def unused(self) -> dict[str, str]:
        """Return the settings that have no effect because of others: by name, the one that causes it."""
        return {}

    def preprocess_part(self) -> dict[str, Any]:
        """Return the settings that preprocessing depends on, as a mapping."""
        return {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self) if spec.metadata["preprocess"]}


def describe(spec: Field[Any]) -> str:
    """Return the limits of a field in words, for messages: "an integer from 1 to 100"."""
    meta = spec.metadata
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    if kind(spec) is bool:
        return "true or false"
    if kind(spec) is int:
        return f"an integer from {meta['minimum']} to {meta['maximum']}"
    if meta["minimum"] is not None:
        return f"a number from {meta['minimum']} to {meta['maximum']}"
    if meta["maximum"] is not None:
        return f"a number above {meta['above']}, at most {meta['maximum']}"
    return f"a finite number above {meta['above']}"


def help_of(spec: Field[Any]) -> str:
    """Return the help text of a field, with its choices and what stands for None."""
    about = spec.metadata
    text: str = about["help"].rstrip(".") + "."
    if about["choices"]:
        text += f" One of {', '.join(map(repr, about['choices']))}."
    if about["if_unset"]:
        text += f" Default: {about['if_unset']}."
    return text


def kind(spec: Field[Any]) -> type:
    """Return the type of a field's values: str, int, float or bool."""
    values: type = (*get_args(spec.type), spec.type)[0]
    return values


def in_words(value: object) -> str:
    """Return a setting's value as the command line takes it."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_text(spec: Field[Any], text: str) -> object:
    """Return the value of a field that a text says; the text itself, which `check` refuses, if it says none."""
    if kind(spec) is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(spec)(text)
    except ValueError:
        return text


def check(spec: Field[Any], value: Any) -> None:
    """Raise SettingsError for a value that a field does not allow."""
    meta = spec.metadata
    type_ = kind(spec)
    if value is None and meta["if_unset"]:
        return
    # Python counts True as an integer and JSON writes 1.0 as 1.
    fits = isinstance(value, type_) or (type_ is float and isinstance(value, int))
    if isinstance(value, bool) and type_ is not bool:
        fits = False
    if meta["choices"]:
        fits = fits and value in meta["choices"]
    if fits and meta["minimum"] is not None:
        fits = meta["minimum"] <= value <= meta["maximum"]
    if fits and meta["above"] is not None:
        # Infinity, NaN and integers too large for a float fail as well.
        fits = meta["above"] < value <= (meta["maximum"] or sys.float_info.max)
    if not fits:
        raise SettingsError(f"{spec.name} is {excerpt(value)}, but must be {describe(spec)}")


@dataclasses.dataclass(frozen=True)
class Method:
    """One way to train a model: an entry of its table.

    `implementation` is a class, as "module:class". It is imported when training starts, because settings are loaded by
    every command and these modules load SciPy and Numba. Only this method, and others that list them, read `settings`.
    """

    implementation: str
    settings: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

    def load(self) -> Any:
        """Return the class that implements the method."""
        return resolve_name(self.implementation)

    def unused(self, methods: Mapping[str, Method]) -> set[str]:
        """Return the settings that only others of these methods (mapping by name) read."""
        return {name for method in methods.values() for name in method.settings} - set(self.settings)


@dataclasses.dataclass(frozen=True)
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
