"""`xmlgp settings`: list the settings of models."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import Field
from typing import Any

import click
from click.formatting import wrap_text

from xmlgp.cli.help import Subcommand
from xmlgp.cli.options import NonEmptyPath
from xmlgp.cli.shells import complete_names
from xmlgp.errors import SettingsError, nearest
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS, fields_of, settings_in_words
from xmlgp.settings.fields import default_of, describe

__all__ = ["settings"]

WIDTH = 100


@click.command(cls=Subcommand)
@click.argument(
    "model",
    required=False,
    type=NonEmptyPath(),
    shell_complete=complete_names(lambda: [(name, model.summary) for name, model in MODELS.items()], with_files=True),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def settings(model: str | None, as_json: bool) -> None:
    """List all settings, or those of MODEL, with their defaults, what they may be and what they mean.

    MODEL is mlgpf, bmlpl or gpc, or a model folder, of which it prints the values. `--set NAME=VALUE` of `xmlgp train`
    sets any of them.

    \b
    Examples:
      xmlgp settings mlgpf
      xmlgp settings models/bibtex --json
      xmlgp train data/bibtex models/bibtex --set optimiser=adam
    """
    values: Mapping[str, object] = {}
    texts: Mapping[str, str] = {}
    if model is None:
        models = list(MODELS)
    elif model in MODELS:
        models = [model]
    elif not os.path.exists(model):
        near = nearest(model, MODELS)
        advice = f"did you mean {near}?" if near else f"the models are {', '.join(MODELS)}"
        raise SettingsError(f"{model} is neither a model nor a model folder; {advice}")
    else:
        folder = ModelFolder(model)
        models = [folder.settings.model]
        values = folder.settings.mapping()
        texts = settings_in_words(folder.settings, folder.description["data"])
    rows = [_row(name, spec, values) for name in models for spec in fields_of(name).values()]
    if as_json:
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for row in rows:
        about = texts.get(row["name"], "")
        default = f"default {row['default']}"
        # A value that is the default for these points says so itself.
        about = about if about.endswith(" (default)") else "; ".join(filter(None, (about, default)))
        click.echo(f"{row['model']} {row['name']}: {about}")
        text = f"{row['meaning']} Allowed: {row['range']}."
        click.echo(wrap_text(text, WIDTH, initial_indent="    ", subsequent_indent="    "))


def _row(model: str, spec: Field[Any], values: Mapping[str, object]) -> dict[str, Any]:
    """Return a setting for JSON, with its value if there are values."""
    value = {"value": values[spec.name]} if values else {}
    about = {"default": default_of(spec), "range": describe(spec), "meaning": spec.metadata["help"]}
    return {"model": model, "name": spec.name} | value | about
