"""The table of models, and their settings by name."""

import contextlib
import dataclasses
import difflib

from xmlgp.bmlpl.record import BMLPL
from xmlgp.errors import SettingsError
from xmlgp.gpc.record import GPC
from xmlgp.mlgpf.record import MLGPF
from xmlgp.runtime.untrusted_text import excerpt, show_name
from xmlgp.settings.fields import check, from_text

__all__ = ["DEFAULT_MODEL", "MODELS", "check_names", "default_model", "fields_of", "read_settings", "settings_from"]

#: The record of each model, by its name.
MODELS = {model.name: model for model in (MLGPF, BMLPL, GPC)}

DEFAULT_MODEL = "mlgpf"


def default_model(data_format):
    """Return the name of the model that data of a format of `xmlgp.data.formats` are trained with by default."""
    return next((name for name, model in MODELS.items() if model.data_format == data_format), DEFAULT_MODEL)


def settings_from(mapping, where, model=None, stored=False):
    """Return the `Settings` of a mapping of names to values, perhaps with the `model`; defaults for the rest.

    A SettingsError names `where`, the source of the mapping, and a model or name that is unknown, a value that is not
    allowed, or settings that contradict each other. `stored` ones are those of a model folder, see `Settings.stored`.
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
    try:
        return MODELS[model].settings(**mapping)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def check_names(names, where, model):
    """Raise SettingsError for a name that is not a setting of the model."""
    unknown = sorted(set(names) - fields_of(model).keys(), key=show_name)
    if unknown:
        raise SettingsError(f"{where}: {_reason(unknown[0], [model])}")


def read_settings(texts, model=None):
    """Return settings that a user wrote as text, by name, each checked alone: by a model, or allowed by some model.

    A SettingsError is raised for a name that is not a setting, with the most similar one, or for a value.
    """
    models, found = [model] if model else list(MODELS), {}
    for name, text in texts.items():
        specs = [fields_of(other)[name] for other in models if name in fields_of(other)]
        if not specs:
            raise SettingsError(_reason(name, models))
        # All models have a setting of the same name with values of the same type.
        found[name] = from_text(specs[0], text)
        for spec in specs[1:]:
            with contextlib.suppress(SettingsError):
                check(spec, found[name])
                break
        else:
            check(specs[0], found[name])
    return found


def fields_of(model):
    """Return the fields of a model's settings, by name."""
    return {spec.name: spec for spec in dataclasses.fields(MODELS[model].settings)}


def _reason(name, models):
    """Return why a name that is no setting of some models is refused."""
    others = [other for other in MODELS if name in fields_of(other)]
    if others:
        return f"{name} is a setting of {' and '.join(others)}, not of {' or '.join(models)}"
    known = {known for model in models for known in fields_of(model)}
    similar = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else ()
    advice = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(sorted(known))}"
    return f"{show_name(name)} is not a setting; {advice}"
