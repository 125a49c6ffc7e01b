"""A batch of points that a trained model is to learn: read it, and compare it with what the model knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset, check_sizes, no_points, widened
from xmlgp.errors import SettingsError, UsageError
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.source import DenseFeatures, Labels, Points, Source, check_widths
from xmlgp.models import MODELS
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.text.labels import label_matrix
from xmlgp.text.names import Names, add_label_names

__all__ = ["Preview", "check_batch", "has_learned", "learned_sizes", "preview", "read_batch", "refuse_foreign"]

#: A batch is probably for another model if less than this share of its words or labels is known, and it has so many.
#: Parts of tags, calls, Delicious and Bibtex have more, in random order, for a model of 1,000 of their points: at least
#: 0.46 of the words and 0.15 of the labels.
FOREIGN_SHARE = 0.1
LEAST = 10


class Preview(NamedTuple):
    """What is new to a model in a batch of points, before it learns them; `preview` returns one.

    Attributes
    ----------
    points : int
        Number of points.
    learned : bool
        Whether the model has learned these points already.
    new_labels, new_features : int
        Numbers of labels and features, such as words, that would be added.
    label_names : list of str or None
        Names of the new labels, if the model has names.
    assignments, known_assignments : int
        How many labels the points have together, and how many of them the model knows.
    occurrences, known_occurrences : int
        How many words the points have together, and how many of them the model knows. For points that are no text, the
        same of their nonzero features.
    is_text : bool
        Whether the features are words.
    """

    points: int
    learned: bool
    new_labels: int
    new_features: int
    label_names: list[str] | None
    assignments: int
    known_assignments: int
    occurrences: int
    known_occurrences: int
    is_text: bool


def preview(
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    add_labels: FilePath | Sequence[str] | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> Preview:
    """Return what `learn` with the same arguments would add to a model; nothing changes."""
    source = Source.of(data, labels, dense)
    check_batch(source, add_labels)
    trained = opened(model)
    points, names = read_batch(trained, source, add_labels, Reporter.of(progress, note))
    D = trained.data["D"]
    K = trained.data["K"]
    counts = _known_counts(trained, points, names)
    return Preview(
        points=points.N,
        learned=has_learned(trained, points),
        new_labels=points.K - K,
        new_features=points.D - D,
        label_names=names.labels and names.labels[K:],
        assignments=counts.assignments,
        known_assignments=counts.known_assignments,
        occurrences=counts.occurrences,
        known_occurrences=counts.known_occurrences,
        is_text=bool(names.vectorizer),
    )


def check_batch(source: Source, add_labels: FilePath | Sequence[str] | None) -> None:
    """Raise UsageError if there is nothing to learn."""
    if source.is_empty and add_labels is None:
        raise UsageError("Nothing to learn: give data, or labels to add.")


def read_batch(
    model: TrainedModel, source: Source, add_labels: FilePath | Sequence[str] | None, reporter: Reporter
) -> tuple[Dataset, Names]:
    """Return the points that a model is to learn, perhaps none, and the names after them."""
    kind = model.settings.model
    if MODELS[kind].learn is None:
        able = " and ".join(name for name, other in MODELS.items() if other.learn)
        raise SettingsError(f"a model of {kind} cannot learn on, only {able} can; train again on all points together")
    known = model.known
    K = known.K
    if add_labels is not None:
        known = known._replace(names=_with_labels(known.names, K, add_labels))
        K = len(known.names.labels or ())
    if source.is_empty:
        return no_points(known.D, K, known.widths), known.names
    points, _, names = source.more(known, reporter)
    check_sizes(points, known.D, K)
    check_widths(points.features.widths, known.widths, source.data)
    return points, names


def _with_labels(names: Names, K: int, add_labels: FilePath | Sequence[str]) -> Names:
    """Return the names of a model of K labels with more labels, of a file or a list."""
    if isinstance(add_labels, str | os.PathLike):
        return add_label_names(os.fspath(add_labels), names, K)
    if names.labels is None:
        raise SettingsError("the model has no names of labels, so none can be added")
    return names._replace(labels=label_matrix([list(add_labels)], names.labels, names.same)[0])


class _Counts(NamedTuple):
    """How many labels points have together, and how many of them a model knows; the same of words or features."""

    assignments: int
    known_assignments: int
    occurrences: int
    known_occurrences: int


def _known_counts(model: TrainedModel, points: Dataset, names: Names) -> _Counts:
    words = points.features.sparse
    labels = points.labels.indices
    # Features of text are counts.
    counts = words.data.astype(np.float64) if names.vectorizer else np.ones(words.nnz)
    return _Counts(
        assignments=len(labels),
        known_assignments=int(np.count_nonzero(labels < model.data["K"])),
        occurrences=int(counts.sum()),
        known_occurrences=int(counts[words.indices < model.data["D"]].sum()),
    )


def refuse_foreign(
    model: TrainedModel, points: Dataset, names: Names, force: bool, note: Callable[[str], object]
) -> None:
    """Raise SettingsError if points are probably for another model; note it if the user has said `force`."""
    counts = _known_counts(model, points, names)
    pairs = ((counts.known_assignments, counts.assignments), (counts.known_occurrences, counts.occurrences))
    if any(total >= LEAST and known < FOREIGN_SHARE * total for known, total in pairs):
        labels, words = (f"{known / max(total, 1):.1%}" for known, total in pairs)
        what = "words" if names.vectorizer else "features"
        text = f"the model knows {words} of the {what} and {labels} of the labels of these points"
        # What a model in memory learns is another object.
        if model.folder and not force:
            raise SettingsError(
                f"{model}: {text}, which are probably for another model; nothing was learned: `xmlgp learn --dry-run` "
                "shows what is new, and `force=True` learns them"
            )
        note(f"{model}: warning: {text}")


def learned_sizes(model: TrainedModel) -> set[int]:
    """Return how many points a model was trained on, and how many each batch had that it has learned."""
    batches = [batch["N"] for batch in model.learned]
    return {model.data["N"] - sum(batches), *batches}


def has_learned(model: TrainedModel, dataset: Dataset) -> bool:
    """Return whether a model was trained on these points, or has learned them, perhaps with fewer features and labels.

    No points are never known.
    """
    if not dataset.N:
        return False
    data = model.data
    learned = model.learned
    of_training = {"N": data["N"] - sum(batch["N"] for batch in learned), "D": 0, "K": 0}
    of_training["fingerprint"] = data.get("first", data["fingerprint"])
    D = data["D"]
    K = data["K"]
    # A fingerprint depends on the numbers of features and labels that the points had then.
    for batch in [*reversed(learned), of_training]:
        if batch["N"] == dataset.N and _fingerprint(dataset, D, K) == batch["fingerprint"]:
            return True
        D = D - batch["D"]
        K = K - batch["K"]
    return False


def _fingerprint(dataset: Dataset, D: int, K: int) -> str | None:
    """Return the fingerprint of points with D features and K labels, or None if they have more."""
    X = dataset.features.sparse
    if X.indices.max(initial=-1) >= D or dataset.labels.indices.max(initial=-1) >= K:
        return None
    return Dataset(dataset.features.with_sparse(widened(X, D)), widened(dataset.labels, K)).fingerprint
