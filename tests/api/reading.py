"""Files as points of a new model or of a known one, as `Source` reads them."""

from xmlgp.api.points import Signature
from xmlgp.api.source import Source
from xmlgp.runtime.progress import Reporter, ignore
from xmlgp.text.documents import NO_OPTIONS

__all__ = ["open_points", "read_more", "read_training"]


def read_training(path, options=NO_OPTIONS, note=ignore):
    """Return the points of a file for a new model."""
    return Source(path, corpus=options).read(reporter=Reporter(note=note))


def read_more(path, names, D, K, options=NO_OPTIONS, note=ignore, first=None):
    """Return the points of a file for a model to learn, which has these names and sizes."""
    return Source(path, corpus=options).read(Signature(names, D, K, first_feature=first), reporter=Reporter(note=note))


def open_points(path, names, sizes, labelled=False, note=ignore, first=None):
    """Open the points of a file to be scored."""
    return Source(path).stream(Signature(names, *sizes, first_feature=first), labelled, Reporter(note=note))
