"""Say how the columns of a DataFrame are given as texts and as labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.written_names import lists_in_code

__all__ = ["labels_of_table", "text_column"]

#: Rows in which columns are recognised.
ROWS = 1000

#: Columns named so have the labels, in this order.
USUAL = ("labels", "label", "tags", "tag", "topics", "topic", "categories", "category", "classes", "class", "subjects")

#: Columns of 0 and 1 that a sentence names one by one.
FEW = 3


def text_column(table: Any) -> str:
    """Return what the column of a DataFrame that probably has the texts is in code: `text`, or that of longest ones."""
    return f"df[{excerpt(_name_of_text(table))}]"


def labels_of_table(table: Any) -> str | None:
    """Return what the labels in a DataFrame are in code; None if no column beside that of the texts may have them."""
    text = _name_of_text(table)
    others = [name for name in table.columns if name != text]
    values = {name: list(itertools.islice(table[name], ROWS)) for name in others}
    named = {str(name).lower(): name for name in reversed(others)}
    usual = [named[name] for name in USUAL if name in named]
    lists = [name for name in others if _some(values[name], _is_list)]
    indicators = [name for name in others if all(_is_indicator(value) for value in values[name])]
    strings = [name for name in others if _some(values[name], _is_text)]
    chosen = next(iter(usual or lists), None)
    if chosen is None and indicators:
        return _indicators(list(table.columns), indicators)
    if chosen is None and not strings:
        return None
    chosen = min(strings, key=lambda name: _length(values[name])) if chosen is None else chosen
    if chosen in indicators:
        return _indicators(list(table.columns), [chosen])
    code = f"df[{excerpt(chosen)}]"
    return code if chosen in lists else lists_in_code(values[chosen], code)


def _name_of_text(table: Any) -> Any:
    columns = list(table.columns)
    return "text" if "text" in columns else max(columns, key=lambda name: _length(table[name]), default=0)


def _indicators(columns: list[Any], chosen: list[Any]) -> str:
    """Return columns of 0 and 1 in code."""
    first = columns.index(chosen[0])
    if len(chosen) > FEW and columns[first : first + len(chosen)] == chosen:
        return f"df.loc[:, {excerpt(chosen[0])}:{excerpt(chosen[-1])}]"
    if len(chosen) > FEW:
        others = ", ".join(excerpt(name) for name in columns if name not in chosen)
        return f"df.drop(columns=[{others}])"
    return f"df[[{', '.join(map(excerpt, chosen))}]]"


def _length(values: Iterable[object]) -> int:
    return sum(len(text) for text in itertools.islice(values, ROWS) if isinstance(text, str))


def _some(values: list[Any], is_kind: Callable[[Any], bool]) -> bool:
    return any(map(is_kind, values))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | set | frozenset | np.ndarray) and all(isinstance(own, str) for own in value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_indicator(value: object) -> bool:
    return isinstance(value, int | float | np.number | np.bool_) and value in (0, 1)
