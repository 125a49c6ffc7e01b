"""True labels that a model does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import show_name
from xmlgp.text.names import Names

__all__ = ["added_labels", "note_unknown", "unknown_labels"]

#: Labels that a note lists.
LISTED = 10


def added_labels(names: Names, known: Names) -> int:
    """Return how many labels follow those of a model, whose names are `known`, in the names of data for it."""
    return max(0, len(names.labels) - len(known.labels)) if names.labels and known.labels else 0


def unknown_labels(
    names: Sequence[str] | None, labels: csr_array, K: int, predicted: Iterable[int] = ()
) -> dict[str, int]:
    """Return the true labels that a model of K labels cannot give, the most frequent first, with their points.

    They follow its own in the true labels, N×K or more, which have these names or None. `predicted` labels it gave
    nevertheless.
    """
    counts = np.bincount(labels.indices, minlength=len(names or ()))
    counts[np.unique(np.asarray(predicted, int))] = 0
    pairs = zip((names or [])[K:], counts[K:].tolist(), strict=False)
    return dict(sorted((pair for pair in pairs if pair[1]), key=lambda pair: (-pair[1], pair[0])))


def note_unknown(data: str, unknown: Mapping[str, int], labels: csr_array, note: Callable[[str], object]) -> None:
    """Note the `unknown_labels` of data, which are called so, if there are any, and their share of the true labels."""
    if not unknown:
        return
    count = f"{counted(len(unknown), 'label')} of {data} {'are' if len(unknown) > 1 else 'is'}"
    share = f"{sum(unknown.values())} of {labels.nnz} true labels"
    names = [f"{show_name(name)} ({points})" for name, points in list(unknown.items())[:LISTED]]
    if len(unknown) > LISTED:
        names.append(f"and {len(unknown) - LISTED} more")
    note(f"{count} unknown to the model and counted as missed ({share}): {', '.join(names)}")
