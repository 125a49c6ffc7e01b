"""Every setting of every model: names, defaults and what is allowed, in one place.

The command line has one option for each field and takes its help from here; recipes of datasets.yaml are
mappings of these names; the model folder stores them.
"""

import contextlib
import dataclasses
import re

from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.errors import ChoiceError, ClashError, OtherModelError, SettingsError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.settings.fields import check

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "check_each",
    "check_names",
    "models_with",
    "settings_from",
]

#: The settings of each model, by its name.
MODELS = {"mlgpf": MLGPFSettings, "bmlpl": BMLPLSettings, "gpc": GPCSettings}

DEFAULT_MODEL = "mlgpf"

#: Names that a message can show as they are.
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def settings_from(mapping, where, model=None):
    """Return settings from a mapping of names to values, defaults for the rest.

    Parameters
    ----------
    mapping : mapping of str to object
    where : str
        Where the mapping comes from, for messages.
    model : str, optional
        One of `MODELS`; when not given, the one that the mapping names as `model`, or else `DEFAULT_MODEL`.

    Returns
    -------
    Settings
        Of that model.

    Raises
    ------
    SettingsError
        For an unknown model, an unknown name or a value that is not allowed; `OtherModelError` for a name that other
        models have, `ChoiceError` for a value that is not one of a setting's choices, `ClashError` for values that do
        not fit each other.
    """
    if model is None:
        mapping = dict(mapping)
        model = mapping.pop("model", DEFAULT_MODEL)
        # YAML has values that no mapping can be asked for.
        if model not in list(MODELS):
            raise SettingsError(f"{where}: model is {excerpt(model)}, but must be one of {', '.join(MODELS)}")
    check_names(mapping, where, model)
    with _standing(where):
        return MODELS[model](**mapping)


def check_names(names, where, model):
    """Raise SettingsError for a name that is not of a setting of the model, as `settings_from` does.

    Parameters
    ----------
    names : iterable
    where : str
    model : str
        One of `MODELS`.
    """
    known = _names(model)
    unknown = sorted(set(names) - known, key=_shown)
    if not unknown:
        return
    others = models_with(unknown[0])
    if others:
        raise OtherModelError(where, unknown[0], others, model)
    raise SettingsError(f"{where}: {_shown(unknown[0])} is not a setting; there are {', '.join(sorted(known))}")


def check_each(mapping, where, model):
    """Raise SettingsError for a name or a value that is wrong whatever the others are, as `settings_from` does.

    Parameters
    ----------
    mapping : mapping of str to object
    where : str
    model : str
        One of `MODELS`.
    """
    check_names(mapping, where, model)
    with _standing(where):
        for spec in dataclasses.fields(MODELS[model]):
            if spec.name in mapping:
                check(spec, mapping[spec.name], model)


def models_with(name):
    """Return the names of the models that have a setting, in the order of `MODELS`."""
    return [model for model in MODELS if name in _names(model)]


@contextlib.contextmanager
def _standing(where):
    """Have errors say where what is wrong stands."""
    try:
        yield
    except ChoiceError as error:
        raise ChoiceError(error.name, error.value, error.choices, error.model, where) from None
    except ClashError as error:
        raise ClashError(error.text, error.names, where) from None
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _names(model):
    return {spec.name for spec in dataclasses.fields(MODELS[model])}


def _shown(name):
    # YAML has keys of many types, which cannot all be compared with each other.
    return name if isinstance(name, str) and NAME.fullmatch(name) else excerpt(name)
