"""Documents whose words determine their labels."""

import json
import random

__all__ = ["LABELS", "TEST", "as_json", "documents"]

COLOURS = ["red", "green", "blue", "grün", "青い"]
LABELS = [f"the {colour}" for colour in COLOURS]


def documents(N, seed):
    """Return N documents with identifiers."""
    chosen = random.Random(seed)
    found = []
    for place in range(N):
        words = [chosen.choice(COLOURS) for _ in range(chosen.randrange(1, 4))]
        others = [f"word{chosen.randrange(9)}" for _ in range(3)]
        found.append({"id": f"k{place}", "text": " ".join(words + others), "labels": [f"the {word}" for word in words]})
    return found


def as_json(found):
    """Return documents as JSON Lines."""
    return "".join(json.dumps(document) + "\n" for document in found)


#: Documents of which the first has no word that a model knows.
TEST = [{"id": 3, "text": "unknown", "labels": []}, *documents(8, 1)]
