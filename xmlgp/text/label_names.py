"""Names of labels as texts: what divides them in one text, and one form of the characters that look the same."""

from __future__ import annotations

import re
import unicodedata

from xmlgp.text.documents import PAGE

__all__ = ["divide_labels", "normalized_name", "split_at_blanks"]

#: Characters without width, which nobody sees, but for the joiners of emoji and of some scripts, which make another
#: name: soft hyphens, marks of direction and of byte order.
INVISIBLE = re.compile("[\xad\u034f\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\ufeff]")

#: A URI in angle brackets, as in RDF and Annif.
BRACKETED_URI = re.compile(r"<((?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^<>]*)>")
#: Several of them, with blanks between.
BRACKETED_URIS = re.compile(rf"\s*{BRACKETED_URI.pattern}(?:\s+{BRACKETED_URI.pattern})*\s*")

#: The blanks that separate labels. Others, such as no-break spaces, are within names.
ASCII_BLANKS = " \t\n\r\v\f"
#: A run of such blanks.
BLANKS = re.compile(f"[{ASCII_BLANKS}]+")

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


def normalized_name(name: str) -> str:
    """Return the name of a label in Unicode's form NFC, without unseen characters and the brackets of a URI.

    Blanks of all kinds, such as no-break ones and line ends, are one plain blank, and none around the name.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", INVISIBLE.sub("", name))
    name = " ".join(name.split())
    uri = BRACKETED_URI.fullmatch(name)
    return uri[1] if uri else name


def split_at_blanks(text: str) -> list[str]:
    """Return what `ASCII_BLANKS` divide a text into."""
    # `split` is faster, but divides at separators of ASCII such as U+001C, too.
    is_plain = text.isascii() and text.isprintable()
    return text.split() if is_plain else list(filter(None, BLANKS.split(text)))


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
