"""What a vectorizer of scikit-learn may consist of, so that a text is only a text and needs bounded memory."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, cast

import numpy as np

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import LONGEST

__all__ = ["check_parts"]

#: The parts by their modules. None opens a file, starts a program, or repeats a step until numbers say so.
PARTS = {
    "sklearn.decomposition": ("TruncatedSVD",),
    "sklearn.feature_extraction.text": ("CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": ("Binarizer", "FunctionTransformer", "MaxAbsScaler", "Normalizer", "StandardScaler"),
    "sklearn.random_projection": ("GaussianRandomProjection",),
}

#: Values that hold no others. skops itself refuses all types and functions but harmless ones of Python and NumPy.
VALUES = (int, float, str, bytes, slice, type, np.generic, np.dtype, np.ufunc, np.random.RandomState)


def check_parts(vectorizer: Any) -> list[Any]:
    """Return the parts of a vectorizer of scikit-learn; ValueError says which is not allowed.

    Everything that it holds is looked at, whatever attribute it is in, because any can be set in a file.
    """
    allowed = _allowed()
    parts = []
    pending = [vectorizer]
    if type(vectorizer) not in allowed:
        raise ValueError(f"it is of the type {excerpt(type(vectorizer).__name__)}")
    while pending:
        one = pending.pop()
        if type(one) in allowed:
            _check_part(one)
            parts.append(one)
        pending += [value for value in _held_by(one, allowed) if value is not None and not isinstance(value, VALUES)]
    return parts


def _allowed() -> set[type]:
    """Return the classes of `PARTS`."""
    return {getattr(import_module(module), name) for module, names in PARTS.items() for name in names}


def _held_by(one: Any, allowed: set[type]) -> Iterator[Any]:
    """Yield what a part, a container or an array holds; ValueError if it is something else."""
    if type(one) in allowed:
        yield from vars(one).values()
    elif type(one) is dict:
        yield from one.keys()
        yield from one.values()
    elif type(one) in (list, tuple, set, frozenset):
        yield from one
    elif type(one) is np.ndarray:
        yield from one.flat if one.dtype.hasobject else ()
    else:
        raise ValueError(f"it has a part of the type {excerpt(type(one).__name__)}")


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays in an attribute, also within containers, but not those of parts in it."""
    if isinstance(value, np.ndarray):
        yield value
    elif type(value) is dict:
        for own in value.values():
            yield from _arrays_in(own)
    elif type(value) in (list, tuple, set, frozenset):
        for own in value:
            yield from _arrays_in(own)


def _are_lengths(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return all(isinstance(length, int | np.integer) for length in value) and 1 <= value[0] <= value[1] <= LONGEST


def _is_width(value: object) -> bool:
    # By another number, scikit-learn would end the process.
    return isinstance(value, int | np.integer) and 1 <= int(value) < 2**31


def _has_fixed_size(value: object) -> bool:
    # Each value of another type can be as long as the type says.
    return np.dtype(cast(Any, value)).kind in "biuf"


def _are_numbered(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(number, int | np.integer) for number in value.values()):
        return False
    return set(value.values()) == set(range(len(value)))


#: By attribute: whether a value of it is safe, and what is wrong with another one.
SAFE_VALUES: dict[str, tuple[Callable[[object], bool], str]] = {
    # The texts of a user would be names of files that it opens.
    "input": (lambda value: value == "content", "reads files"),
    "ngram_range": (_are_lengths, f"has n-grams of lengths that are not from 1 to {LONGEST}"),
    "n_features": (_is_width, "has not from 1 to 2,147,483,647 features"),
    "dtype": (_has_fixed_size, "has values that are not numbers"),
    "vocabulary_": (_are_numbered, "has words that do not have the numbers from 0"),
}


def _check_part(part: Any) -> None:
    """Raise ValueError if the attributes of a part open files, need too much memory, or replace its methods."""
    name = type(part).__name__
    attributes = vars(part)
    for attribute in attributes:
        if callable(getattr(type(part), attribute, None)):
            raise ValueError(f"{name} has the attribute {excerpt(attribute)}")
    settings = part.get_params(deep=False)
    for attribute, value in attributes.items():
        # Arrays of two axes, or more, could be combined into one of gigabytes.
        if not all(array.ndim <= 1 + (attribute == "components_") for array in _arrays_in(value)):
            raise ValueError(f"{name} has an array of another shape in {excerpt(attribute)}")
        if attribute in settings and next(_arrays_in(value), None) is not None:
            raise ValueError(f"{name} has an array in {excerpt(attribute)}")
    for attribute, (is_safe, problem) in SAFE_VALUES.items():
        if attribute in attributes and not is_safe(attributes[attribute]):
            raise ValueError(f"{name} {problem}")
