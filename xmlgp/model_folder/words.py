"""What the description of a model says, in words, for `xmlgp show` and for the card of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xmlgp.models import MODELS
from xmlgp.runtime.plurals import counted
from xmlgp.training.trained import HeldOut

__all__ = ["learned", "measured", "names", "names_of_blocks", "training"]


def names_of_blocks(data: Mapping[str, Any], has_encoder: bool) -> list[str]:
    """Return what the dense blocks are called of points with these facts, the first perhaps of an encoder."""
    encoder = ["encoder"] if has_encoder else []
    count = len(data.get("dense", [])) - len(encoder)
    return encoder + [f"dense {number}" for number in range(1, count + 1)]


def names(description: Mapping[str, Any]) -> str:
    """Return what has names: "of labels and features"; nothing without names."""
    arrays = description["arrays"]
    kinds = [kind for kind in ("labels", "features") if f"names.{kind}" in arrays]
    preferred = "; preferred labels of a vocabulary" if "names.preferred" in arrays else ""
    return f"of {' and '.join(kinds)}{preferred}" if kinds else ""


def training(description: Mapping[str, Any]) -> str:
    """Return how long a model was trained, and to which objective; nothing before it is trained."""
    history = description.get("history")
    if not history:
        return ""
    record = MODELS[description["model"]]
    workers = description.get("workers")
    where = f", on a Dask cluster of {counted(workers, 'worker')}" if workers else ""
    return f"{record.epochs(history[-1])}, {history[-1]['seconds']:.1f} s, {record.objective_at(history[-1])}{where}"


def measured(description: Mapping[str, Any], held_out: HeldOut) -> str:
    """Return the precision on held-out points; nothing for a single label, whose best is no measure."""
    K = description["data"]["K"]
    return held_out.precision(K) if K > 1 else ""


def learned(description: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many points a model has learned since its first training."""
    first, *later = description.get("learned", ()) or [None]
    if first:
        batches = counted(len(later), "batch", "batches")
        yield f"{batches} of {counted(sum(batch['N'] for batch in later), 'point')} after the first {first['N']}"
