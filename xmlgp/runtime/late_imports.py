"""Objects that are imported when they are first needed, by name: tables of them are read by every command."""

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["imported", "imported_when_called"]


def imported(name: str) -> Any:
    """Return the object of a name, "module:object"; the module is imported."""
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)


def imported_when_called(name: str) -> Callable[..., Any]:
    """Return a function that calls the one of a name, "module:function", whose module is imported by the first call."""

    def call(*arguments: object, **options: object) -> Any:
        return imported(name)(*arguments, **options)

    return call
