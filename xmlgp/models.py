"""The table of models, and their settings by name."""

import contextlib
import dataclasses

from xmlgp.bmlpl.record import BMLPL
from xmlgp.errors import ChoiceError, ClashError, OtherModelError, SettingsError
from xmlgp.gpc.record import GPC
from xmlgp.mlgpf.record import MLGPF
from xmlgp.runtime.untrusted_text import excerpt, show_name
from xmlgp.settings.fields import check

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "check_each",
    "check_names",
    "default_model",
    "models_with",
    "settings_from",
]

#: The record of each model, by its name.
MODELS = {model.name: model for model in (MLGPF, BMLPL, GPC)}

DEFAULT_MODEL = "mlgpf"


def default_model(data_format):
    """Return the name of the model that data of a format are trained with, unless the user names one.

    Parameters
    ----------
    data_format : str
        See `xmlgp.data.formats`.
    """
    return next((name for name, model in MODELS.items() if model.data_format == data_format), DEFAULT_MODEL)


def settings_from(mapping, where, model=None, stored=False):
    """Return settings from a mapping of names to values, defaults for the rest.

    Parameters
    ----------
    mapping : mapping of str to object
    where : str
        The source of the mapping, for messages.
    model : str, optional
        One of `MODELS`. Default: the one that the mapping names as `model`, else `DEFAULT_MODEL`.
    stored : bool
        Whether they are those of a model folder, perhaps of an earlier version; see `Settings.stored`.

    Returns
    -------
    Settings
        Of that model.

    Raises
    ------
    SettingsError
        For an unknown model, an unknown name or a value that is not allowed; `OtherModelError` for a setting of other
        models, `ChoiceError` for a value that is not one of a setting's choices, `ClashError` for settings that
        contradict each other.
    """
    if model is None:
        mapping = dict(mapping)
        model = mapping.pop("model", DEFAULT_MODEL)
        # A list, because YAML has values that cannot be hashed.
        if model not in list(MODELS):
            raise SettingsError(f"{where}: model is {excerpt(model)}, but must be one of {', '.join(MODELS)}")
    if stored:
        mapping = MODELS[model].settings.stored(mapping)
    check_names(mapping, where, model)
    with _located(where):
        return MODELS[model].settings(**mapping)


def check_names(names, where, model):
    """Raise SettingsError for a name that is not a setting of the model, as `settings_from` does.

    Parameters
    ----------
    names : iterable
    where : str
    model : str
        One of `MODELS`.
    """
    known = _names(model)
    unknown = sorted(set(names) - known, key=show_name)
    if not unknown:
        return
    others = models_with(unknown[0])
    if others:
        raise OtherModelError(where, unknown[0], others, model)
    raise SettingsError(f"{where}: {show_name(unknown[0])} is not a setting; there are {', '.join(sorted(known))}")


def check_each(mapping, where, model):
    """Raise SettingsError for an unknown name or a value that is never allowed, checking each setting alone.

    Parameters
    ----------
    mapping : mapping of str to object
    where : str
    model : str
        One of `MODELS`.
    """
    check_names(mapping, where, model)
    with _located(where):
        for spec in dataclasses.fields(MODELS[model].settings):
            if spec.name in mapping:
                check(spec, mapping[spec.name], model)


def models_with(name):
    """Return the names of the models that have a setting, in the order of `MODELS`."""
    return [model for model in MODELS if name in _names(model)]


@contextlib.contextmanager
def _located(where):
    """Add the source of the settings to errors."""
    try:
        yield
    except ChoiceError as error:
        raise ChoiceError(error.name, error.value, error.choices, error.model, where) from None
    except ClashError as error:
        raise ClashError(error.text, error.names, where) from None
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _names(model):
    return {spec.name for spec in dataclasses.fields(MODELS[model].settings)}
