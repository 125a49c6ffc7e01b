"""The options that choose a model and its settings."""

import functools

import click

from xmlgp.errors import SettingsError
from xmlgp.models import DEFAULT_MODEL, MODELS, fields_of, read_settings

__all__ = ["settings_options"]

#: The settings with options of their own, which people and the papers vary: a letter or none, and the help.
FLAGS = {
    "kernel": ("", "mlgpf: linear, se or se+linear."),
    "inducing": ("", "mlgpf: inducing inputs, features (the unit vectors), free or subspace."),
    "inducing_count": ("-M", "mlgpf, gpc: inducing inputs."),
    "basis_size": ("-R", "mlgpf: basis vectors of the subspace."),
    "factors": ("-P", "mlgpf: latent functions."),
    "label_weights": ("", "mlgpf: weights of each label on features."),
    "posterior": ("", "mlgpf: shared-diagonal, diagonal or cholesky."),
    "expectations": ("", "mlgpf: quadrature, jj or taylor."),
    "ranking": ("", "mlgpf: rank labels by probability or by utility."),
    "epochs": ("", "mlgpf: passes over the data."),
    "topics": ("-T", "bmlpl: topics of labels."),
    "inference": ("", "bmlpl, gpc: the inference method, such as gibbs or svi-adadelta."),
    "iterations": ("", "bmlpl, gpc: passes over the data."),
    "weighting": ("", "mlgpf, bmlpl: feature weighting, root-idf, idf, unit or none."),
    "batch_size": ("", "Points in a minibatch."),
    "learning_rate": ("", "mlgpf, gpc: learning rate."),
    "seed": ("", "Seed of all random numbers."),
}


def settings_options(preprocess_only=False):
    """Add `--model`, `--recipe`, `--set` and the options of `FLAGS`; the command gets `recipe` and `chosen`, a mapping.

    Parameters
    ----------
    preprocess_only : bool
        Only the options of settings that preprocessing depends on.
    """
    specs = {name: spec for model in MODELS for name, spec in fields_of(model).items()}
    flags = [name for name in FLAGS if specs[name].metadata["preprocess"] or not preprocess_only]

    def decorate(command):
        @functools.wraps(command)
        def wrapped(model_name, assignments, **values):
            given = [(name, str(value)) for name in flags if (value := values.pop(name)) is not None]
            given += [_split(text) for text in assignments]
            texts = dict(given)
            if len(texts) < len(given):
                twice = next(name for name in texts if [other for other, _ in given].count(name) > 1)
                raise click.UsageError(f"{twice} is set twice.")
            try:
                chosen = read_settings(texts, model_name)
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            return command(chosen=({"model": model_name} if model_name else {}) | chosen, **values)

        wrapped = click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set any setting, such as calibration=false; `xmlgp settings` lists them. May be given several times.",
        )(wrapped)
        for name in reversed(flags):
            wrapped = _option(name, *FLAGS[name])(wrapped)
        return _recipe_option(_model_option(wrapped))

    return decorate


def _recipe_option(command):
    return click.option(
        "--recipe", metavar="NAME", help="Named settings of the catalogue, such as s-LINEAR; options override it."
    )(command)


def _model_option(command):
    formats = [model for model in MODELS.values() if model.data_format]
    defaults = [f"{model.name} for data in {model.data_format} format" for model in formats]
    return click.option(
        "--model",
        "model_name",
        type=click.Choice(list(MODELS)),
        help="; ".join(f"{name} ({model.summary})" for name, model in MODELS.items())
        + f".  [default: {'; '.join([DEFAULT_MODEL, *defaults])}]",
    )(command)


def _option(name, letter, text):
    """Return the option of a setting; `read_settings` checks its value."""
    flag = "--" + name.replace("_", "-")
    names = f"{flag}/--no-{flag[2:]}" if name == "label_weights" else flag
    metavar = None if name == "label_weights" else "VALUE"
    return click.option(*filter(None, [letter]), names, name, default=None, metavar=metavar, help=text)


def _split(assignment):
    name, equals, value = assignment.partition("=")
    if not equals:
        raise click.UsageError(f"--set {assignment} is not of the form NAME=VALUE.")
    return name.strip(), value.strip()
