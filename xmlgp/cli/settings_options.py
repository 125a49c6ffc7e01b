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
    "replay": ("", "mlgpf: training points that MODEL contains for `xmlgp learn`; 0 for none."),
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
    """Add `--model`, `--recipe`, `--set` and the options of `FLAGS`, perhaps only those that preprocessing depends on.

    The command gets `recipe` and `settings`, a mapping.
    """
    specs = {name: spec for model in MODELS for name, spec in fields_of(model).items()}
    flags = [name for name in FLAGS if specs[name].metadata["preprocess"] or not preprocess_only]
    others = [f"{model.name} for data in {model.data_format} format" for model in MODELS.values() if model.data_format]
    added = [
        click.option(
            "--recipe", metavar="NAME", help="Named settings of the catalogue, such as s-LINEAR; options override it."
        ),
        click.option(
            "--model",
            "model_name",
            type=click.Choice(list(MODELS)),
            help="; ".join(f"{name} ({model.summary})" for name, model in MODELS.items())
            + f".  [default: {'; '.join([DEFAULT_MODEL, *others])}]",
        ),
        *map(_setting_option, flags),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set any setting, such as calibration=false; `xmlgp settings` lists them. May be given several times.",
        ),
    ]

    def decorate(command):
        @functools.wraps(command)
        def wrapped(model_name, assignments, **options):
            texts = {name: str(value) for name in flags if (value := options.pop(name)) is not None}
            for assignment in assignments:
                name, equals, text = (part.strip() for part in assignment.partition("="))
                if not equals:
                    raise click.UsageError(f"--set {assignment} is not of the form NAME=VALUE.")
                if name in texts:
                    raise click.UsageError(f"{name} is set twice.")
                texts[name] = text
            try:
                settings = read_settings(texts, model_name)
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            return command(settings=({"model": model_name} if model_name else {}) | settings, **options)

        return functools.reduce(lambda decorated, option: option(decorated), reversed(added), wrapped)

    return decorate


def _setting_option(name):
    """Return the option of a setting; `read_settings` checks its value."""
    (letter, text) = FLAGS[name]
    flag = name.replace("_", "-")
    switch = name == "label_weights"
    names = [*filter(None, [letter]), f"--{flag}/--no-{flag}" if switch else f"--{flag}", name]
    return click.option(*names, default=None, metavar=None if switch else "VALUE", help=text)
