"""`xmlgp topics`: print the labels of each topic of a model."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from xmlgp.cli.help import Subcommand
from xmlgp.cli.options import INPUT, NonEmptyPath
from xmlgp.data.names import read_label_names
from xmlgp.model import Topic
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.trained_model import open_topics
from xmlgp.runtime.untrusted_text import escape

__all__ = ["topics"]


@click.command(cls=Subcommand)
@click.argument("model", type=NonEmptyPath())
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Labels for each topic.")
@click.option(
    "--label-names",
    metavar="FILE",
    type=INPUT,
    help="Names of the labels: UTF-8 text, one name per line, label 0 first.  [default: those that MODEL has]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, in full precision.")
def topics(model: str, top: int, label_names: str | None, as_json: bool) -> None:
    """Print the labels of highest weight in each topic of a bmlpl model in the folder MODEL.

    A topic is a distribution over labels. The topics are sorted by their share of the labels of the training points.
    Each label is printed with its probability in the topic, its number, and its name if there are names. FILE may be
    compressed, or - for standard input.

    \b
    Examples:
      xmlgp train --model bmlpl --topics 40 data/bibtex models/bibtex-topics
      xmlgp topics models/bibtex-topics --top 3
    """
    folder, strongest = ModelFolder.read(model, lambda folder: (folder, open_topics(folder, top)))
    K = folder.description["data"]["K"]
    names = read_label_names(label_names, K) if label_names else folder.names.shown
    if as_json:
        click.echo(json.dumps([_facts(topic, names) for topic in strongest]))
        return
    width = len(str(K - 1))
    for topic in strongest:
        click.echo(f"topic {topic.number} ({100 * topic.share:.2f} %)")
        for label, weight in zip(topic.labels, topic.weights, strict=True):
            name = f"  {escape(names[label], longest=None)}" if names else ""
            click.echo(f"  {weight:.4f}  {label:{width}}{name}".rstrip())


def _facts(topic: Topic, names: Sequence[str] | None) -> dict[str, object]:
    """Return a topic for JSON."""
    labels: list[dict[str, object]] = [
        {"label": label, **({"name": names[label]} if names else {}), "weight": weight}
        for label, weight in zip(topic.labels, topic.weights, strict=True)
    ]
    return {"topic": topic.number, "share": topic.share, "labels": labels}
