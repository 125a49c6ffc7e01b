"""How people and programs write names into one text: what separates names, and which marks mean that there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "CELL_MARKS",
    "CERTAIN",
    "FLAG_MARKS",
    "LIST_MARKS",
    "SEPARATORS",
    "WITHIN_NAMES",
    "is_missing",
    "lists_in_code",
    "separator_of",
]

#: What usually separates names; the comma comes last, as it is within names, too.
SEPARATORS = {
    ";": "a semicolon",
    "|": "a bar",
    "；": "a full-width semicolon",
    "，": "a full-width comma",
    "、": "an ideographic comma",
    "،": "an Arabic comma",
    "•": "a bullet",
    ",": "a comma",
}

#: What separates names, but is often within one.
WITHIN_NAMES = {
    " / ": "a slash",
    " > ": "an angle bracket",
    "/": "a slash",
    "#": "a number sign",
    "&": "an ampersand",
    "+": "a plus sign",
    "::": "two colons",
    ":": "a colon",
    "_": "an underscore",
    "-": "a hyphen",
    " ": "a blank",
}

#: Those that are looked for where none is named. Others, such as a blank, join words that occur in many names.
CERTAIN = SEPARATORS | {separator: WITHIN_NAMES[separator] for separator in (" / ", "/")}

#: Marks of no value in the cells of a table, where None and N/A may be names.
CELL_MARKS = ("nan", "NaN", "<NA>", "#N/A", "NULL", "\\N")
#: The same in a list that Python or JSON has written without quotes.
LIST_MARKS = ("nan", "NaN", "None", "null")
#: The same where a cell says whether a label holds, in lower case.
FLAG_MARKS = ("", *(mark.lower() for mark in (*CELL_MARKS, *LIST_MARKS)))
#: The same as objects of Python and pandas print themselves.
OBJECT_MARKS = ("nan", "NaT", "<NA>")

#: Names as NumPy prints an array of them, without commas.
PRINTED_BY_NUMPY = re.compile(r"'\s+'")

#: Lists as Python and JSON write them.
WRITTEN = re.compile(r"\s*[\[({]\s*['\"]")


def is_missing(value: object) -> bool:
    """Return whether a value in Python says that there is none: None, or what pandas has for it."""
    return value is None or str(value) in OBJECT_MARKS


def separator_of(texts: Iterable[object]) -> str | None:
    """Return what probably separates the names in texts, or None."""
    names = [text for text in texts if isinstance(text, str)]
    usual = (*SEPARATORS, "\n", "\t")
    return next((separator for separator in usual if any(separator in text for text in names)), None)


def lists_in_code(texts: Sequence[object], variable: str) -> str:
    """Return code of Python that makes lists of names of the texts in a variable, some of which may be missing."""
    names = [text for text in texts if isinstance(text, str) and text.strip()]
    separator = separator_of(names)
    if any(map(PRINTED_BY_NUMPY.search, filter(WRITTEN.match, names))):
        # `ast.literal_eval` would read "['a' 'b']" as one name.
        one_list = """re.findall("'(.*?)'", names)"""
    elif any(map(WRITTEN.match, names)):
        one_list = "ast.literal_eval(names)"
    elif names:
        one_list = f"names.split({separator!r})" if separator else "[names]"
    else:
        return f"[[str(name)] for name in {variable}]"
    if len(names) < len(texts):
        one_list += " if isinstance(names, str) and names else []"
    return f"[{one_list} for names in {variable}]"
