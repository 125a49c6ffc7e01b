"""Labels as a cell of a table has them: one text, in which a separator divides names."""

from __future__ import annotations

import re

from xmlgp.text.characters import BRACKETED_URIS, split_at_blanks
from xmlgp.text.documents import PAGE

__all__ = ["divide_labels"]

#: A list as Python, JSON or NumPy writes it.
LIST = re.compile(r"\s*(\[.*\]|\(\)|\{\}|[({]\s*['\"].*[)}]|(array|set|frozenset)\(.*\))\s*", re.DOTALL)

#: What programs write into a cell without a value.
NO_VALUE = re.compile(r"\s*(nan|NaN|<NA>|NULL|null|None|\\N)\s*")

#: Names in angle brackets, one after the other.
ANGLES = re.compile(r"\s*(<[^<>]*>\s*){2,}")

#: Names with one pair of quotes around them all.
QUOTED = re.compile(r"""\s*(["'])[^"']*\1\s*""")

#: A name with quotes around, with the prefix of fastText, or with what separates names at its end.
ODD = re.compile(r"""\s*((["'“„]).+["'”“]|.*__label__.*|.*[,;|；，]|[,;|；，].*)\s*""", re.DOTALL)

#: The end of a name whose separator was escaped, as with a backslash or as HTML writes characters.
ESCAPED = re.compile(r"\\\Z|&(?:[A-Za-z]{2,8}|#\d{1,6}|#x[0-9A-Fa-f]{1,6})\Z")

#: What is wrong with the text of a cell, and with a name in it.
ELSEWHERE = "there is what quotes or separates labels elsewhere; --label-separator names the separator"
REFUSED_CELLS = {
    NO_VALUE: "programs write this where there is no value; leave the cell empty",
    ANGLES: f"names in angle brackets are not divided; {PAGE} makes JSON Lines of them",
    QUOTED: ELSEWHERE,
}


def divide_labels(text: str, separator: str | None, is_cell: bool = True) -> list[str]:
    """Return the names in a text of labels, in which a blank as a separator is any whitespace.

    Without a separator the text is one name. ValueError says why the text cannot be read so; a name that is not in a
    cell of a table, or the like, may look like any text but a list.
    """
    if LIST.fullmatch(text):
        raise ValueError(f"a list is written in a text, which is not read; {PAGE} makes JSON Lines of it")
    if BRACKETED_URIS.fullmatch(text):
        return split_at_blanks(text)
    for pattern, reason in REFUSED_CELLS.items() if is_cell else ():
        if pattern.fullmatch(text):
            raise ValueError(reason)
    if separator is None:
        names = [text]
    elif separator.isspace() and separator != "\t":
        names = split_at_blanks(text)
    else:
        names = text.split(separator)
    if any(map(ESCAPED.search, names[:-1])):
        raise ValueError(f"a separator is escaped, which is not read; {PAGE} makes JSON Lines of it")
    if is_cell and any(map(ODD.fullmatch, names)):
        raise ValueError(ELSEWHERE)
    return [name for name in names if name.strip()]
