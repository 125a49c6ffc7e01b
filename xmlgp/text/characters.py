"""Names of labels as texts: one form of the characters that look the same, and what stands between names."""

import re
import unicodedata

__all__ = ["ASCII_BLANKS", "BRACKETED_URIS", "normalized_name", "split_at_blanks"]

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
