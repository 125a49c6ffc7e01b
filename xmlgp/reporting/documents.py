"""The documents that a report shows, with their labels, words for and against these, and neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from xmlgp.reporting.evidence import SampledPoint
from xmlgp.reporting.plain_text import plain

if TYPE_CHECKING:
    from xmlgp.prediction.predictor import Neighbours
    from xmlgp.reporting.content import About

__all__ = ["describe_document", "describe_neighbours"]

#: Words for a label and words against it, each at most.
WORDS = 5

#: Features that are shown of a document without text, those of the greatest values.
FEATURES = 40

#: Characters of a text that a closed document shows.
BEGINNING = 160

#: Characters of a text that are shown.
CHARACTERS = 4000


def describe_document(point: SampledPoint, about: About) -> SimpleNamespace:
    """Return a document of the sample: its text or features, its true labels, those suggested and those missed."""
    row = None if point.features is None else point.features.sparse
    features: list[tuple[str, float]] = []
    if point.text is None and row is not None:
        order = np.lexsort((row.indices, -np.abs(row.data)))[:FEATURES]
        features = [(about.feature_name(int(row.indices[i])), float(row.data[i])) for i in order]
    suggested = point.scores.labels[: point.assigned].tolist()
    right = len(set(suggested) & set(point.labels))
    return SimpleNamespace(
        number=point.number + 1,
        id=None if point.id is None else plain(point.id),
        right=point.right,
        text=None if point.text is None else plain(point.text[:CHARACTERS]),
        beginning=_beginning(point.text, [name for name, _ in features]),
        right_count=right,
        wrong_count=len(suggested) - right,
        missed_count=len(point.labels) - right,
        shortened=point.text is not None and len(point.text) > CHARACTERS,
        features=features,
        n_features=0 if row is None else row.nnz,
        # Whether the values of features say anything.
        valued=any(value != 1 for _, value in features),
        true=[about.label_name(label) for label in point.labels],
        suggestions=list(_suggestions(point, about)),
        missed=list(_missed(point, about.label_name)),
        neighbours=[],
    )


def _beginning(text: str | None, names: list[str]) -> str:
    """Return what a line shows of a document: the beginning of its text, or its features."""
    words = ", ".join(names) if text is None else text[: 4 * BEGINNING]
    return plain(" ".join(words.split())[:BEGINNING])


def _suggestions(point: SampledPoint, about: About) -> Iterator[SimpleNamespace]:
    """Yield the labels that are shown, best first."""
    shown = point.shown
    contributions = about.explain(point.features, shown) if about.explain and point.features is not None else None
    for rank, (label, probability) in enumerate(zip(shown.labels.tolist(), shown.scores.tolist(), strict=True)):
        sides = contributions.strongest(rank, WORDS) if contributions else ([], [])
        words = [[(about.feature_name(feature), value) for feature, value in side] for side in sides]
        shares: list[tuple[str, float]] = []
        if contributions and contributions.dense is not None:
            shares = list(contributions.shares(rank, about.block_names).items())
        yield SimpleNamespace(
            name=about.label_name(label),
            probability=probability,
            true=label in point.labels,
            assigned=rank < point.assigned,
            words_for=words[0],
            words_against=words[1],
            shares=shares,
        )


def _missed(point: SampledPoint, label_name: Callable[[int], str]) -> Iterator[tuple[str, int | None, float | None]]:
    """Yield true labels further down the list, with their rank and probability, and those that are not listed."""
    ranked = point.scores.labels.tolist()
    for rank in range(len(point.shown.labels), len(ranked)):
        if ranked[rank] in point.labels:
            yield label_name(ranked[rank]), rank + 1, float(point.scores.scores[rank])
    for label in point.labels:
        if label not in ranked:
            yield label_name(label), None, None


def describe_neighbours(neighbours: Neighbours, label_name: Callable[[int], str]) -> Iterator[list[SimpleNamespace]]:
    """Yield the neighbours of each document: their numbers, if these say anything, similarities and true labels."""
    for points, similarities in zip(neighbours.points.tolist(), neighbours.similarity.tolist(), strict=True):
        yield [
            SimpleNamespace(
                number=point + 1 if neighbours.complete else None,
                similarity=similarity,
                labels=[label_name(label) for label in neighbours.labels[[point]].indices.tolist()],
            )
            for point, similarity in zip(points, similarities, strict=True)
        ]
