"""Inference methods of a model: the entries of its table, and the settings that depend on them."""

import importlib
from dataclasses import dataclass
from typing import ClassVar

from xmlgp.settings.fields import EPOCHS_LIMIT, Settings, setting

__all__ = ["InferenceMethod", "InferenceSettings", "inference_setting", "iterations_setting"]


@dataclass(frozen=True)
class InferenceMethod:
    """One way to infer the parameters of a model: an entry of its table.

    Attributes
    ----------
    implementation : str
        Its subclass of `xmlgp.training.inference.Inference`, as "module:class". It is imported when training starts,
        because settings are loaded by every command and these modules load SciPy and Numba.
    summary : str
        Description of the method, for the help of the setting.
    iterations : int
        Default number of iterations.
    settings : tuple of str
        Settings that only this method and others that list them read.
    """

    implementation: str
    summary: str
    iterations: int
    settings: tuple = ()

    def load(self):
        """Return the class that implements the method."""
        module, name = self.implementation.split(":")
        return getattr(importlib.import_module(module), name)


def inference_setting(default, methods):
    """Return the field of the inference method.

    Parameters
    ----------
    default : str
    methods : dict of str to InferenceMethod
        The model's table.
    """
    *others, last = (f"{name} ({method.summary})" for name, method in methods.items())
    return setting(default, f"Inference method: {', '.join(others)} or {last}.", choices=methods)


def iterations_setting(methods, remark):
    """Return the field of the number of iterations.

    Parameters
    ----------
    methods : dict of str to InferenceMethod
        The model's table.
    remark : str
        What an iteration is, or when there are fewer.
    """
    by_default = {}
    for name, method in methods.items():
        by_default.setdefault(method.iterations, []).append(name)
    defaults = ", ".join(f"{count} with {_join(names)}" for count, names in by_default.items())
    return setting(None, f"Iterations, {remark}.", minimum=1, maximum=EPOCHS_LIMIT, if_unset=defaults)


def _join(names):
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


class InferenceSettings(Settings):
    """Settings of a model with several inference methods; their fields are `inference` and `iterations`.

    Attributes
    ----------
    inferences : dict of str to InferenceMethod
        The model's table.
    """

    inferences: ClassVar[dict]

    @property
    def method(self):
        """The chosen `InferenceMethod`."""
        return self.inferences[self.inference]

    @property
    def passes(self):
        """Largest number of iterations."""
        return self.iterations or self.method.iterations

    def unused(self):
        """Return the settings that have no effect with the chosen inference method; see `Settings.unused`."""
        special = {name for method in self.inferences.values() for name in method.settings}
        return dict.fromkeys(special - set(self.method.settings), f"inference={self.inference}")
