"""Suggestions for texts: what `xmlgp predict` finds, in the form of Annif's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xmlgp.runs.predict import predict
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.threads import parallel_for
from xmlgp.serving.requests import Parameters

__all__ = ["Suggestions", "suggest"]

#: For each text the labels, each with `score` and `probability`, which are the same, `std`, and what explains it.
Suggestions: TypeAlias = list[list[dict[str, Any]]]

#: Least number of texts for a core.
GRAIN = 8


def suggest(model: TrainedModel, texts: Sequence[str], parameters: Parameters) -> Suggestions:
    """Return the suggestions of a model for texts. XmlgpError as for `predict`."""
    parts = parallel_for(lambda start, stop: _suggest(model, texts[start:stop], parameters), len(texts), GRAIN)
    return sum(parts, [])


def _suggest(model: TrainedModel, texts: Sequence[str], parameters: Parameters) -> Suggestions:
    if parameters.most == 0:
        return [[] for _ in texts]
    options: dict[str, Any] = {name: getattr(parameters, name) or None for name in ("explain", "only", "without")}
    if parameters.assign:
        options |= {"assign": True, "limit": parameters.most}
    elif parameters.threshold > 0:
        options |= {"threshold": parameters.threshold, "limit": parameters.most}
    else:
        options["k"] = parameters.most
    predictions = predict(model, texts, output="probability", with_std=True, **options)
    return [[_in_form(label) for label in point["labels"]] for point in predictions]


def _in_form(label: dict[str, Any]) -> dict[str, Any]:
    # A label that has no URI is identified by its name.
    uri = label.pop("uri", None) or label["label"]
    name = label.pop("label")
    return {"uri": uri, "label": name, "notation": None, "score": label["probability"]} | label
