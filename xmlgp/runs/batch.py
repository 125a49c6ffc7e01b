"""A batch of points that a trained model is to learn: read it, and compare it with what the model knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xmlgp.data.dataset import Dataset, check_sizes, no_points, widened
from xmlgp.errors import SettingsError, UsageError
from xmlgp.models import MODELS
from xmlgp.runs.given import DenseFeatures, FilePath, Labels, Points, check_dense, more_labels, more_points
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions

__all__ = ["Preview", "check_given", "has_learned", "preview", "read_batch", "refuse_foreign"]

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
    data: Points | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    add_labels: FilePath | Sequence[str] | None = None,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Preview:
    """Return what `learn` with the same arguments would add to a model; nothing changes."""
    check_given(data, dense, add_labels)
    trained = opened(model)
    return _preview(trained, *read_batch(trained, data, labels, dense, add_labels, corpus, cache, progress, note))


def check_given(data, dense, add_labels):
    """Raise UsageError if there is nothing to learn."""
    if data is None and dense is None and add_labels is None:
        raise UsageError("Nothing to learn: give data, or labels to add.")


def read_batch(model, data, labels, dense, add_labels, corpus, cache, progress, note):
    """Return the points that a `TrainedModel` is to learn (`Dataset`), perhaps none, and the names after them."""
    kind = model.settings.model
    if MODELS[kind].learn is None:
        able = " and ".join(name for name, other in MODELS.items() if other.learn)
        raise SettingsError(f"a model of {kind} cannot learn on, only {able} can; train again on all points together")
    D = model.data["D"]
    K = model.data["K"]
    widths = model.data.get("dense", [])
    names = model.names
    if add_labels is not None:
        names, K = more_labels(names, K, add_labels)
    if data is None and dense is None:
        return no_points(D, K, widths), names
    points, names = more_points(data, labels, dense, model, names, corpus, cache, progress, note)
    check_sizes(points, D, K)
    check_dense(points.features.widths, widths, data)
    return points, names


def _preview(model, points, names):
    D = model.data["D"]
    K = model.data["K"]
    (known_assignments, assignments), (known_occurrences, occurrences) = _known_counts(model, points, names)
    return Preview(
        points=points.N,
        learned=has_learned(model, points),
        new_labels=points.K - K,
        new_features=points.D - D,
        label_names=names.labels and names.labels[K:],
        assignments=assignments,
        known_assignments=known_assignments,
        occurrences=occurrences,
        known_occurrences=known_occurrences,
        is_text=bool(names.vectorizer),
    )


def _known_counts(model, points, names):
    """Return how many labels of points the model knows, and of how many; the same of words, or nonzero features."""
    words = points.features.sparse
    labels = points.labels.indices
    # Features of text are counts.
    counts = words.data.astype(np.float64) if names.vectorizer else np.ones(words.nnz)
    known = int(counts[words.indices < model.data["D"]].sum())
    return (int(np.count_nonzero(labels < model.data["K"])), len(labels)), (known, int(counts.sum()))


def refuse_foreign(model, points, names, force, note):
    """Raise SettingsError if points are probably for another model; note it if the user has said `force`."""
    pairs = _known_counts(model, points, names)
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


def has_learned(model, dataset):
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


def _fingerprint(dataset, D, K):
    """Return the fingerprint of points with D features and K labels, or None if they have more."""
    X = dataset.features.sparse
    if X.indices.max(initial=-1) >= D or dataset.labels.indices.max(initial=-1) >= K:
        return None
    return Dataset(dataset.features.with_sparse(widened(X, D)), widened(dataset.labels, K)).fingerprint
