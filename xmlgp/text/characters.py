"""Characters that look the same and are not: one form of each for the words of texts and for names."""

import functools
import re
import sys
import unicodedata

__all__ = ["ASCII_BLANKS", "BRACKETED_URIS", "normalized_name", "normalized_text", "split_at_blanks", "words_of"]

#: Characters without width, which nobody sees: soft hyphens, joiners, marks of direction and of byte order.
INVISIBLE = re.compile("[\xad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff]")

#: The same in names, where the joiners of emoji and of some scripts make another name.
INVISIBLE_IN_NAMES = re.compile("[\xad\u034f\u061c\u180e\u200b\u200e\u200f\u2060-\u2064\ufeff]")

#: A URI in angle brackets, as in RDF and Annif.
BRACKETED_URI = re.compile(r"<((?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^<>]*)>")
#: Several of them, with blanks between.
BRACKETED_URIS = re.compile(rf"\s*{BRACKETED_URI.pattern}(?:\s+{BRACKETED_URI.pattern})*\s*")

#: The blanks that separate labels. Others, such as no-break spaces, are within names.
ASCII_BLANKS = " \t\n\r\v\f"
#: A run of such blanks.
BLANKS = re.compile(f"[{ASCII_BLANKS}]+")

#: The words of a text as scikit-learn's `CountVectorizer` has them.
WORDS = re.compile(r"\b\w\w+\b")


def normalized_text(text: str) -> str:
    """Return text in Unicode's form NFC, without invisible characters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", INVISIBLE.sub("", text))


def normalized_name(name: str) -> str:
    """Return the name of a label in Unicode's form NFC, without unseen characters and the brackets of a URI.

    Blanks of all kinds, such as no-break ones and line ends, are one plain blank, and none around the name.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", INVISIBLE_IN_NAMES.sub("", name))
    name = " ".join(name.split())
    uri = BRACKETED_URI.fullmatch(name)
    return uri[1] if uri else name


def split_at_blanks(text: str) -> list[str]:
    """Return what `ASCII_BLANKS` divide a text into."""
    # `split` is faster, but divides at separators of ASCII such as U+001C, too.
    is_plain = text.isascii() and text.isprintable()
    return text.split() if is_plain else list(filter(None, BLANKS.split(text)))


def words_of(text: str) -> list[str]:
    """Return the words of a text: runs of two or more letters or digits, with the accents and vowel signs on them."""
    if text.isascii():
        return WORDS.findall(text)
    text = normalized_text(text)
    if any(map(_is_mark, set(text))):
        return _words_with_marks().findall(text)
    return WORDS.findall(text)


@functools.lru_cache(maxsize=1 << 12)
def _is_mark(character: str) -> bool:
    """Return whether a character is a mark on the one before; some texts have such marks even in the form NFC."""
    return unicodedata.category(character).startswith("M")


@functools.cache
def _words_with_marks() -> re.Pattern[str]:
    """Return `WORDS` for texts with marks, which are not letters."""
    marks = "".join(filter(_is_mark.__wrapped__, map(chr, range(sys.maxunicode + 1))))
    return re.compile(rf"\w[\w{marks}]+")
