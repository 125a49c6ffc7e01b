"""Say how names of labels that are written in one text become a list of names, as in Python they must be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["is_missing", "lists_in_code", "separator_of"]

#: What may separate names, in the order in which it is looked for: a comma may be within a name.
SEPARATORS = (";", "|", "\n", "\t", ",")

#: Lists as Python and JSON write them, and what is between the names as NumPy writes them.
WRITTEN = re.compile(r"\s*[\[({]\s*['\"]")
NUMPY = re.compile(r"['\"]\s+['\"]")


def is_missing(value: object) -> bool:
    """Return whether a value says that there is none: None, or what pandas has for it."""
    return value is None or str(value) in ("nan", "NaT", "<NA>")


def separator_of(texts: Iterable[object]) -> str | None:
    """Return what probably separates the names in texts, or None."""
    found = {own for text in texts if isinstance(text, str) for own in SEPARATORS if own in text}
    return min(found, key=SEPARATORS.index, default=None)


def lists_in_code(texts: Sequence[object], called: str) -> str:
    """Return in code the lists of the names in texts, some of which may be missing, and which are `called` so."""
    known = [text for text in texts if isinstance(text, str) and text.strip()]
    written = [text for text in known if WRITTEN.match(text)]
    separator = separator_of(known)
    if any(map(NUMPY.search, written)):
        names = """re.findall("'(.*?)'", names)"""
    elif written:
        names = "ast.literal_eval(names)"
    elif known:
        names = f"names.split({separator!r})" if separator else "[names]"
    else:
        return f"[[str(name)] for name in {called}]"
    others = " if isinstance(names, str) and names else []" if len(known) < len(texts) else ""
    return f"[{names}{others} for names in {called}]"
