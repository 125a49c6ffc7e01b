"""Match the points of two files by their identifiers, which programs write in different ways."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from operator import eq
from typing import NamedTuple

from xmlgp.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["IdentifiedPoints", "canonical_identifier", "matched_rows"]

#: A number as spreadsheets and pandas write it, of so few digits that its conversion is fast.
NUMBER = re.compile(r"[+-]?[0-9]{1,99}(\.[0-9]{0,99})?([eE][+-]?[0-9]{1,2})?")


class IdentifiedPoints(NamedTuple):
    """N points: what messages call them, and their identifiers, which some or all (None) may lack.

    Unless predicted points are `complete`, those without labels are missing.
    """

    name: str
    ids: Sequence[str | int | None] | None
    N: int
    complete: bool = True

    def texts(self) -> list[str] | None:
        """Return identifiers as texts, where one is missing the number of the point from 1; None if all are missing."""
        found = [None if own is None or not str(own).strip() else str(own) for own in self.ids or ()]
        if all(own is None for own in found):
            return None
        return [str(number) if own is None else own for number, own in enumerate(found, 1)]


def canonical_identifier(identifier: str) -> str:
    """Return an identifier without blanks around, in Unicode's form NFC; 003 and 3.0 are 3."""
    plain = unicodedata.normalize("NFC", identifier).strip()
    if not NUMBER.fullmatch(plain):
        return plain
    digits = f"{Decimal(plain):f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits


def matched_rows(
    predicted: IdentifiedPoints, true: IdentifiedPoints, numbered: bool, note: Callable[[str], object]
) -> list[int] | None:
    """Return the place of each true point among the predicted ones, or None if both are in the same order.

    The place is -1 of a point that is missing because it has no labels.

    Identifiers count in the way of `canonical_identifier` if more are equal so. True points without identifiers are
    called by their numbers if they are `numbered`. SettingsError if identifiers show that the points are others.
    """
    own = predicted.texts()
    wanted = true.texts()
    by_order = "so points are matched by their order"
    same_number = predicted.N == true.N
    if own is None:
        if wanted and same_number and not _are_row_numbers(wanted):
            note(f"{predicted.name} has no identifiers, but {true.name} has, such as {excerpt(wanted[0])}, {by_order}")
        return None
    if own == wanted or (same_number and _are_row_numbers(own) and (wanted is None or _are_row_numbers(wanted))):
        return None
    has_none = f"{predicted.name} has identifiers, but {true.name} has none"
    if wanted is None and predicted.complete and not numbered:
        if same_number:
            note(f"{has_none}, {by_order}")
        return None
    counted_from_0 = wanted is None and "0" in own
    numbers = wanted or [str(number) for number in range(not counted_from_0, true.N + (not counted_from_0))]
    keys = _comparable(own, numbers)
    places = {key: place for place, key in enumerate(keys[0])}
    missing = [number for number, key in zip(numbers, keys[1], strict=True) if key not in places]
    if missing and not _lack_labels(predicted, true, missing, note):
        reason = has_none if wanted is None else _counted_by_one(predicted, true, keys, (own[0], missing[0]))
        if wanted is not None and not (reason and same_number):
            raise _missing(predicted, true, own[0], missing)
        if same_number:
            note(f"{reason}, {by_order}")
        return None
    _check_unique(predicted.name, own, keys[0])
    _check_unique(true.name, numbers, keys[1], "; --merge-ids makes one document of rows with the same identifier")
    if counted_from_0:
        note(f"{predicted.name} counts points from 0, so 0 is the first point of {true.name}")
    rows = [places.get(key, -1) for key in keys[1]]
    pairs = [(own[row], number) for row, number in zip(rows, numbers, strict=True) if row >= 0]
    _note_differences(predicted, true, pairs, note)
    return rows


def _lack_labels(
    predicted: IdentifiedPoints, true: IdentifiedPoints, missing: list[str], note: Callable[[str], object]
) -> bool:
    """Return whether true points are missing because they have no labels, and note it: some others are there."""
    if predicted.complete or len(missing) == true.N:
        return False
    note(f"{predicted.name} has no labels of {len(missing)} of {true.N} points, such as {excerpt(missing[0])}")
    return True


def _counted_by_one(
    predicted: IdentifiedPoints, true: IdentifiedPoints, keys: tuple[list[str], list[str]], examples: tuple[str, str]
) -> str:
    """Return that one of two files counts points where the other has identifiers, or "" if none does."""
    if _are_row_numbers(keys[0]):
        return f"{predicted.name} counts points, but {true.name} has identifiers such as {excerpt(examples[1])}"
    if _are_row_numbers(keys[1]):
        return f"{predicted.name} has identifiers such as {excerpt(examples[0])}, but {true.name} counts points"
    return ""


def _are_row_numbers(ids: Sequence[str]) -> bool:
    """Return whether identifiers are the numbers of rows in order, from 1 or, as by pandas, from 0."""
    return any(all(map(eq, ids, map(str, count(first)))) for first in (0, 1))


def _comparable(own: list[str], others: list[str]) -> tuple[list[str], list[str]]:
    """Return identifiers of two files in canonical form if more are equal so and none become one, or as they are."""
    exact = len(set(own).intersection(others))
    if exact == len(set(others)):
        return own, others
    canonical = (list(map(canonical_identifier, own)), list(map(canonical_identifier, others)))
    distinct = len(set(canonical[0])) == len(set(own)) and len(set(canonical[1])) == len(set(others))
    more = len(set(canonical[0]).intersection(canonical[1])) > exact
    return canonical if distinct and more else (own, others)


def _missing(predicted: IdentifiedPoints, true: IdentifiedPoints, first: str, missing: list[str]) -> SettingsError:
    """Return the error of true points that have no prediction, of which the first has this identifier."""
    if len(missing) < true.N or (predicted.complete and predicted.N != true.N):
        return SettingsError(f"{predicted.name} has no labels of {excerpt(missing[0])}, a point of {true.name}")
    return SettingsError(
        f"{predicted.name} and {true.name} have no identifier in common, such as {excerpt(first)} and "
        f"{excerpt(missing[0])}; --id-column says which column of {true.name} has them, and without `id` in "
        f"{predicted.name} points are matched by their order"
    )


def _check_unique(name: str, ids: list[str], keys: list[str], advice: str = "") -> None:
    """Raise SettingsError if an identifier occurs twice."""
    seen = set()
    for identifier, key in zip(ids, keys, strict=True):
        if key in seen:
            raise SettingsError(f"{name} has {excerpt(identifier)} twice{advice}")
        seen.add(key)


def _note_differences(
    predicted: IdentifiedPoints, true: IdentifiedPoints, pairs: list[tuple[str, str]], note: Callable[[str], object]
) -> None:
    """Note points that are left out, and identifiers that are not written in the same way, in pairs of both files."""
    if len(pairs) < predicted.N:
        left_out = predicted.N - len(pairs)
        note(f"{predicted.name}: {left_out} of {predicted.N} points are not in {true.name} and left out")
    for identifier, other in pairs:
        if identifier != other:
            pair = f"{excerpt(identifier)} of {predicted.name} is {excerpt(other)} of {true.name}"
            note(f"identifiers are compared without blanks, leading zeros and decimal zeros: {pair}")
            return
