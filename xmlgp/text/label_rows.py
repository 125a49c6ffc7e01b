"""The labels of documents as rows have them: a text that separates names, or a row for each label.

Options say how labels are separated and whether rows are merged. Where the rows look as if the options were wrong, a
note says so once all are read.
"""

from __future__ import annotations

import csv
import html
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import Document, Reading
from xmlgp.text.written_lists import bracketed_names, written_list

__all__ = ["describe_malformed", "divide_labels", "merge_rows", "split_labels"]

#: What usually separates labels.
SEPARATORS = {
    ";": "a semicolon",
    ",": "a comma",
    "|": "a bar",
    "；": "a full-width semicolon",
    "，": "a full-width comma",
    "、": "an ideographic comma",
    "،": "an Arabic comma",
    "•": "a bullet",
}

#: What separates labels, but is often within one: these are noted if most of what they separate is a label alone, too.
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

#: What no name of a label can have, so it separates labels.
LINES = re.compile("[\n\r\t\v\f]+")

#: What a list of names without quotes has not.
STRUCTURE = re.compile(r"""[\[\](){}'"]""")

#: A character as HTML writes it.
ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#[0-9]{1,6}|#x[0-9A-Fa-f]{1,6});")

#: Labels that are no names, but say whether a label without a name holds: three of them or more.
VECTOR = {"0", "1"}
NO_NAMES = (
    "the labels are a list of 0 and 1, which names none; write the names, or a column for each label and give "
    "--label-columns"
)

#: The same in a text.
VECTOR_TEXT = re.compile(r"\s*[01](?:\.0)?(?:[ ,;|]\s*[01](?:\.0)?){2,}\s*")

#: Shares of rows. Another separator is noted in most rows, or in some if it divides the texts into fewer labels, unless
#: the given one is in more than few.
MOST = 0.5
SOME = 0.1
FEW = 0.05

#: Labels for each text of several, below which what is often within a name is noted as a separator.
REUSED = 0.4

#: Most texts of labels that are kept to compare with others.
KEPT = 1 << 16


def divide_labels(text: str, separator: str | None, usual: str | None) -> list[str]:
    """Return the names in a text of labels, with the usual separator if the user gave none; None is for one label.

    A list as JSON, Python or NumPy writes it, and names in angle brackets, are read as what they are. ValueError if
    the text is in square brackets, but no such list.
    """
    try:
        names = written_list(text)
    except ValueError:
        inside = text.strip()[1:-1]
        if (separator or usual) is None:
            return [text]
        if not separator or STRUCTURE.search(inside):
            raise
        # The user says how a list without quotes is divided.
        text = inside
        names = None
    if names is None:
        names = bracketed_names(text)
    if names is not None:
        return names
    separator = separator or usual
    if separator is None:
        return [text]
    if ENTITY.search(text):
        # Its semicolon separates nothing.
        text = html.unescape(text)
    if separator.isspace() and separator != "\t":
        return split_at_blanks(text)
    names = [name for line in LINES.split(text) for name in _divided(line, separator)]
    # A name has brackets in all cells or in none.
    return [name for own in names for name in (bracketed_names(own) or [own])] if "<" in text else names


def describe_malformed(text: str) -> str:
    """Return what is wrong with a text that `divide_labels` refuses, and what to do."""
    several = "json.dumps of Python writes lists"
    if not STRUCTURE.search(text.strip()[1:-1]):
        several = "--label-separator , divides a list without quotes"
    return f"the labels {excerpt(text)} are no list of names in quotes, as JSON and Python write it; {several}"


def _divided(text: str, separator: str) -> list[str]:
    """Return what a separator divides a text into, unless it is in quotes, as in a row of CSV."""
    if '"' in text and len(separator) == 1:
        try:
            return next(csv.reader([text], delimiter=separator, strict=True, skipinitialspace=True), [])
        except csv.Error:
            pass
    return text.split(separator)


class _Separators:
    """Counts what could separate labels, to note where it does and the options say otherwise."""

    def __init__(self, separator: str | None, chosen: bool = False) -> None:
        self._chosen = chosen  # by the user
        self._rows = 0
        self._divided = 0
        self._others = [other for other in (*SEPARATORS, *WITHIN_NAMES) if other != separator]
        self._counts: Counter[str] = Counter()
        self._texts: dict[str, dict[str, None]] = {other: {} for other in self._others}
        self._pieces: dict[str, set[str]] = {other: set() for other in self._others}
        # What could separate labels in each text, as most texts occur again and again.
        self._known: dict[str, tuple[str, ...]] = {}

    def count(self, text: str, names: list[str]) -> None:
        """Look at a text of labels, which was divided into these names."""
        self._rows += bool(text and not text.isspace())
        self._divided += len(names) > 1
        present = self._known.get(text)
        if present is None:
            pieces = {other: _pieces(text, other) for other in self._others if other in text}
            present = tuple(other for other, own in pieces.items() if len(own) > 1)
            if len(self._known) < KEPT:
                self._known[text] = present
            for other in present:
                if len(self._texts[other]) < KEPT:
                    self._texts[other][text] = None
                    self._pieces[other].update(pieces[other])
        self._counts.update(present)

    def advice(self) -> str | None:
        """Return what to note, if there is something."""
        if self._divided > FEW * self._rows or not self._rows:
            return None
        # Of several, the one that divides texts into fewer labels: a name may have a comma.
        usual = sorted(
            (other for other in SEPARATORS if self._counts[other]),
            key=lambda other: (-self._counts[other], len(self._pieces[other])),
        )
        for separator in [*usual[:1], *WITHIN_NAMES]:
            count = self._counts[separator]
            if not count:
                continue
            texts = self._texts[separator]
            pieces = self._pieces[separator]
            # Most of what it separates is a label alone, too, or occurs again and again.
            reused = len(pieces) <= len(texts) and MOST * len(pieces) <= len(pieces & self._known.keys())
            reused |= len(pieces) < (len(texts) if separator in SEPARATORS else REUSED * len(texts))
            noted = reused and count > SOME * self._rows
            if separator in SEPARATORS and not self._chosen:
                noted |= count > MOST * self._rows
            if noted:
                what = {**SEPARATORS, **WITHIN_NAMES}[separator]
                share = f"{count / self._rows:.0%}"
                example = excerpt(next(iter(texts)))
                return (
                    f"labels such as {example} have {what} in {share} of the rows; if it separates labels, give "
                    f"--label-separator {shlex.quote(separator)}"
                )
        return None


def _pieces(text: str, separator: str) -> list[str]:
    """Return what a separator divides a text into."""
    return [piece for piece in map(str.strip, text.split(separator)) if piece]


def split_labels(documents: Iterable[Document], reading: Reading, usual: str | None) -> Iterator[Document]:
    """Yield documents whose labels are lists; those that are texts are separated as columns or the usual way say."""
    separator = reading.columns.separator
    seen = _Separators(separator or usual, chosen=separator is not None)
    for document in documents:
        labels = document.labels
        if not isinstance(labels, list):
            names = []
            for text in (labels,) if isinstance(labels, str) else labels:
                try:
                    own = divide_labels(text, separator, usual)
                except ValueError:
                    raise DataFormatError(reading.path, document.line, describe_malformed(text)) from None
                if VECTOR_TEXT.fullmatch(text):
                    raise DataFormatError(reading.path, document.line, NO_NAMES)
                seen.count(text, own)
                names += own
            document = Document(document.line, document.id, document.text, names)
        if len(document.labels) > 2 and VECTOR.issuperset(document.labels):
            raise DataFormatError(reading.path, document.line, NO_NAMES)
        yield document
    advice = seen.advice()
    if advice:
        reading.note(f"{reading.path}: {advice}")


def merge_rows(documents: Iterable[Document], path: str) -> Iterator[Document]:
    """Yield a document for each identifier, in the order of their first rows, with the labels of all its rows.

    Texts that differ are joined by spaces. All rows are in memory.
    """
    rows: dict[str | int, list[Document]] = {}
    for document in documents:
        if document.id in (None, ""):
            reason = "there is no identifier, which --merge-ids needs; --id-column names its column"
            raise DataFormatError(path, document.line, reason)
        rows.setdefault(document.id, []).append(document)
    for identifier, group in rows.items():
        names = [name for document in group for name in document.labels]
        texts = dict.fromkeys(document.text for document in group if document.text)
        yield Document(group[0].line, identifier, " ".join(texts), names)
