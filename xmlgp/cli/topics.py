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
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import escape

__all__ = ["topics"]

#: Topics that a person reads.
READABLE = 40

#: Labels below this share of the highest weight of their topic are noise to a person.
LEAST_SHARE = 0.01


@click.command(cls=Subcommand)
@click.argument("model", type=NonEmptyPath())
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Most labels of each topic.")
@click.option(
    "--groups",
    type=click.IntRange(1),
    default=READABLE,
    show_default=True,
    help="If there are more topics, join those that are most alike into as many groups.",
)
@click.option("--separate", is_flag=True, help="List each topic by itself.")
@click.option(
    "--label-names",
    metavar="FILE",
    type=INPUT,
    help="Names of the labels: UTF-8 text, one name per line, label 0 first.  [default: those that MODEL has]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, in full precision.")
def topics(model: str, top: int, groups: int, separate: bool, label_names: str | None, as_json: bool) -> None:
    """Print the labels of highest weight in each topic of a bmlpl model in the folder MODEL.

    A topic is a distribution over labels. The topics are sorted by their share of the labels of the training points.
    Each label is printed with its probability in the topic, its number, and its name if there are names; those below
    1 % of the highest are left out, but not from JSON. FILE may be compressed, or - for standard input.

    Many topics rank labels best, but then most have one label each. So those that similar points have, by the weights
    of their features, are joined: "topic 3, joined with 4 similar ones".

    \b
    Examples:
      xmlgp train --model bmlpl data/bibtex models/bibtex-topics
      xmlgp topics models/bibtex-topics --top 3
    """
    most = None if separate else groups
    folder, strongest = ModelFolder.read(model, lambda folder: (folder, open_topics(folder, top, most)))
    K = folder.description["data"]["K"]
    names = read_label_names(label_names, K) if label_names else folder.names.shown
    if as_json:
        click.echo(json.dumps([_facts(topic, names) for topic in strongest]))
        return
    width = len(str(K - 1))
    for topic in strongest:
        joined_count = len(topic.joined) - 1
        joined = f", joined with {counted(joined_count, 'similar one')}" if joined_count else ""
        click.echo(f"topic {topic.number}{joined} ({100 * topic.share:.2f} %)")
        for label, weight in zip(topic.labels, topic.weights, strict=True):
            if weight < LEAST_SHARE * topic.weights[0]:
                break
            name = f"  {escape(names[label], longest=None)}" if names else ""
            click.echo(f"  {weight:.4f}  {label:{width}}{name}".rstrip())


def _facts(topic: Topic, names: Sequence[str] | None) -> dict[str, object]:
    """Return a topic for JSON."""
    labels: list[dict[str, object]] = [
        {"label": label, **({"name": names[label]} if names else {}), "weight": weight}
        for label, weight in zip(topic.labels, topic.weights, strict=True)
    ]
    return {"topic": topic.number, "joined": topic.joined, "share": topic.share, "labels": labels}
