"""Suggestions for texts: what `xmlgp predict` finds, in the form of Annif's answers."""

from xmlgp.runs.predict import predict
from xmlgp.runtime.threads import parallel_for

__all__ = ["suggest"]

#: Least number of texts for a core.
GRAIN = 8


def suggest(model, texts, parameters):
    """Return the suggestions of a `TrainedModel` for each text, a list of dicts, by the `Parameters` of a request.

    A label has `score` and `probability`, which are the same, `std`, and what explains it. XmlgpError as for `predict`.
    """
    parts = parallel_for(lambda start, stop: _suggest(model, texts[start:stop], parameters), len(texts), GRAIN)
    return sum(parts, [])


def _suggest(model, texts, parameters):
    if parameters.most == 0:
        return [[] for _ in texts]
    how = {name: getattr(parameters, name) or None for name in ("explain", "only", "without")}
    if parameters.assign:
        how |= {"assign": True, "limit": parameters.most}
    elif parameters.threshold > 0:
        how |= {"threshold": parameters.threshold, "limit": parameters.most}
    else:
        how["k"] = parameters.most
    found = predict(model, texts, output="probability", with_std=True, **how)
    return [[_in_form(label) for label in point["labels"]] for point in found]


def _in_form(label):
    # A label that has no URI is identified by its name.
    uri = label.pop("uri", None) or label["label"]
    name = label.pop("label")
    probability = label["probability"]
    return {"uri": uri, "label": name, "notation": None, "score": probability} | label
