"""Lists of names that were written into one cell: by JSON, by Python, by NumPy, or in angle brackets."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable

from xmlgp.text.written_names import LIST_MARKS

__all__ = ["bracketed_names", "written_list"]

#: Most characters of a list.
LONGEST = 1 << 20
#: The same for a list of objects in Python's notation, whose syntax tree takes up to 500 bytes a character.
LONGEST_OBJECTS = 1 << 16

#: What Python and NumPy write around a list.
WRAPPED = re.compile(r"(?:array|set|frozenset)\((.*?)(?:,\s*dtype=[^(),]*)?\)", re.DOTALL)
#: The outside of a list, a tuple and a set.
CLOSING = {"[": "]", "(": ")", "{": "}"}

#: An entry of a list in Python: a text in quotes, a number, or nothing.
ENTRY = r"""(?:[ub]?'(?:[^'\\]|\\.)*'|[ub]?"(?:[^"\\]|\\.)*"|-?\d+|None|nan|NaN|null)"""
#: The entries of a list, separated by commas or blanks.
ENTRIES = re.compile(rf"\s*(?:{ENTRY}(?:\s*,\s*{ENTRY})*\s*(?:,\s*)?|{ENTRY}(?:\s+{ENTRY})*\s*)?", re.DOTALL)
#: The same, to find each.
ONE_ENTRY = re.compile(ENTRY, re.DOTALL)

#: A text in a list as NumPy 2 prints it.
NUMPY_TEXT = re.compile(r"""\bnp\.str_\(('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""")
#: An object, not a set.
OBJECT = re.compile(r"""\{\s*(?:'[^']*'|"[^"]*")\s*:""")

#: A list of names without quotes in braces, as databases write it.
UNQUOTED_SET = re.compile(r"\{[^{}'\"]+\}")

#: The fields of an object that has the name of a label.
NAME_FIELDS = ("uri", "label", "name")

#: The quotes around a text.
QUOTES = "'\""

#: What is wrong with a text that looks like a list.
NO_LIST = "it is no list of names"

#: What may be between names in angle brackets, with the brackets.
BETWEEN_BRACKETED = re.compile(r">\s*(?:[,;|]\s*)?<")


def written_list(text: str) -> list[str] | None:
    """Return the names in a text that is a list as JSON, Python or NumPy writes it; None for another text.

    ValueError if the text is in square brackets but no list of names.
    """
    text = text.strip()
    wrapped = WRAPPED.fullmatch(text)
    if wrapped:
        text = wrapped[1].strip() or "[]"
    if CLOSING.get(text[:1]) != text[-1:]:
        return None
    text = NUMPY_TEXT.sub(r"\1", text)
    if OBJECT.match(text):
        raise ValueError("it is an object")
    is_square = text.startswith("[")
    values = _parsed(json.loads, text) if is_square else None
    if values is not None:
        return _names(values)
    if len(text) > LONGEST:
        raise ValueError("it is too long for a list of names")
    inside = text[1:-1]
    if is_square and inside.lstrip().startswith("{") and len(text) <= LONGEST_OBJECTS:
        return _names(_parsed(ast.literal_eval, text))
    if not ENTRIES.fullmatch(inside):
        if is_square or wrapped or UNQUOTED_SET.fullmatch(text):
            raise ValueError(NO_LIST)
        return None
    entries = ONE_ENTRY.findall(inside)
    # A name or a number in parentheses or braces is no list.
    if not is_square and inside.strip() and not any(entry[-1] in QUOTES for entry in entries):
        return None
    return [_literal(entry) for entry in entries if entry not in LIST_MARKS]


def _parsed(parse: Callable[[str], object], text: str) -> object:
    """Return what a parser reads in a text, or None if it cannot."""
    try:
        return parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _names(values: object) -> list[str]:
    """Return the names in a list of texts, integers and objects, without what stands for no value."""
    if not isinstance(values, list):
        raise ValueError(NO_LIST)
    names = []
    for value in values:
        if isinstance(value, dict):
            value = next((value[field] for field in NAME_FIELDS if isinstance(value.get(field), str)), True)
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise ValueError("an entry is no name")
        if isinstance(value, float) and not math.isnan(value):
            raise ValueError("an entry is a number with decimals")
        if isinstance(value, str | int):
            names.append(str(value))
    return names


def _literal(entry: str) -> str:
    """Return the name that an entry stands for; numbers, as in 007, are as they are written."""
    if entry[-1] not in QUOTES:
        return entry
    try:
        value = ast.literal_eval(entry)
    except SyntaxError:
        # Line ends and backslashes that nothing escaped.
        return entry.lstrip("ub")[1:-1]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def bracketed_names(text: str) -> list[str] | None:
    """Return the names in a text that consists of names in angle brackets, `<a><b>`; None for another text."""
    text = text.strip()
    if not (text.startswith("<") and text.endswith(">")):
        return None
    names = BETWEEN_BRACKETED.split(text[1:-1])
    return None if any(not name or "<" in name or ">" in name for name in names) else names
