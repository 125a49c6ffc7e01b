"""The labels of documents as rows have them: a text that separates names, or a row for each label.

Options say how labels are separated and whether rows are merged. Where the rows look as if the options were wrong, a
note says so after the last one; where another separator is nearly certain and no option names one, they are refused.
"""

from __future__ import annotations

import csv
import html
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import Document, Reading
from xmlgp.text.written_lists import bracketed_names, written_list
from xmlgp.text.written_names import CERTAIN, SEPARATORS, WITHIN_NAMES

__all__ = ["describe_malformed", "divide_labels", "merge_rows", "split_labels"]

#: Ends of lines and tabs separate labels, as no name has them.
LINES = re.compile("[\n\r\t\v\f]+")

#: Characters that a list of names without quotes does not have.
STRUCTURE = re.compile(r"""[\[\](){}'"]""")

#: A character as HTML writes it.
ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#[0-9]{1,6}|#x[0-9A-Fa-f]{1,6});")

#: Three labels of these or more are a vector: they say whether labels without names hold.
VECTOR = {"0", "1"}
#: What is wrong with a vector.
NO_NAMES = (
    "the labels are a list of 0 and 1, which names none; write the names, or a column for each label and give "
    "--label-columns"
)

#: A vector in a text.
VECTOR_TEXT = re.compile(r"\s*[01](?:\.0)?(?:[ ,;|]\s*[01](?:\.0)?){2,}\s*")

#: The share of rows with another separator from which on it is noted.
MOST = 0.5
#: The same where it divides the texts into fewer labels.
SOME = 0.1
#: The share of rows that the chosen separator divides, up to which another one is looked for.
FEW = 0.05

#: Labels for each divided text, below which what is often within a name is noted as a separator.
REUSED = 0.4

#: The share of repeated names that stand in several places, seen from both ends of a row, from which on a separator is
#: certain. Lists of labels have 0.6 to 1 from 100 rows on, parts of names as in "Smith, John" up to 0.45.
MOVING = 0.6

#: Rows with labels after which they are first looked at: embeddings of many texts take hours.
EARLY = 1000

#: Most texts of labels that are kept to compare with others.
KEPT = 1 << 16


def divide_labels(text: str, separator: str | None, usual: str | None) -> list[str]:
    """Return the names in a text of labels; without a separator, or a usual one, the text is one label.

    A list as JSON, Python or NumPy writes it, and names in angle brackets, are read as what they are. ValueError if
    the text is in square brackets, but no such list.
    """
    chosen = separator or usual
    try:
        names = written_list(text)
    except ValueError:
        inside = text.strip()[1:-1]
        if chosen is None:
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
    if chosen is None:
        return [text]
    if ENTITY.search(text):
        # Its semicolon separates nothing.
        text = html.unescape(text)
    if chosen.isspace() and chosen != "\t":
        return split_at_blanks(text)
    names = [name for line in LINES.split(text) for name in _divided(line, chosen)]
    # A label is the same with brackets in one cell and without them in another.
    return [label for name in names for label in bracketed_names(name) or [name]] if "<" in text else names


def describe_malformed(text: str) -> str:
    """Return what is wrong with a text that `divide_labels` refuses, and what to do."""
    advice = "json.dumps of Python writes lists"
    if not STRUCTURE.search(text.strip()[1:-1]):
        advice = "--label-separator , divides a list without quotes"
    return f"the labels {excerpt(text)} are no list of names in quotes, as JSON and Python write it; {advice}"


def _divided(text: str, separator: str) -> list[str]:
    """Return what a separator divides a text into, unless it is in quotes, as in a row of CSV."""
    if '"' in text and len(separator) == 1:
        try:
            return next(csv.reader([text], delimiter=separator, strict=True, skipinitialspace=True), [])
        except csv.Error:
            pass
    return text.split(separator)


def split_labels(documents: Iterable[Document], reading: Reading, usual: str | None) -> Iterator[Document]:
    """Yield documents with lists of labels; the separator of the columns, or the usual one, divides texts of labels."""
    separator = reading.columns.separator
    texts = _Texts(separator, usual)
    for document in documents:
        labels = document.labels
        if not isinstance(labels, list):
            names = []
            for text in (labels,) if isinstance(labels, str) else labels:
                try:
                    divided = divide_labels(text, separator, usual)
                except ValueError:
                    raise reading.error(document.line, describe_malformed(text)) from None
                if VECTOR_TEXT.fullmatch(text):
                    raise reading.error(document.line, NO_NAMES)
                texts.add(text, len(divided) > 1, document.line)
                names += divided
            document = document._replace(labels=names)
        if len(document.labels) > 2 and VECTOR.issuperset(document.labels):
            raise reading.error(document.line, NO_NAMES)
        if texts.rows == EARLY:
            texts.check(reading)
        yield document
    texts.check(reading)
    advice = texts.advice()
    if advice:
        reading.tell(advice)


class _Texts:
    """The texts of labels of the rows so far, and what their separator does."""

    def __init__(self, separator: str | None, usual: str | None) -> None:
        self._chosen = separator
        self._separator = separator or usual
        self._texts: Counter[str] = Counter()
        #: The line where each text stands first.
        self._lines: dict[str, int] = {}
        self._divided = 0
        #: Rows with labels.
        self.rows = 0

    def add(self, text: str, is_divided: bool, line: int) -> None:
        """Count a text of labels, unless too many others are kept already."""
        if text.strip() and (len(self._texts) < KEPT or text in self._texts):
            self._texts[text] += 1
            self._lines.setdefault(text, line)
            self._divided += is_divided
            self.rows += 1

    @property
    def _is_doubtful(self) -> bool:
        """Whether the separator divides few rows, so that another one may be meant."""
        return bool(self.rows) and self._divided <= FEW * self.rows

    def check(self, reading: Reading) -> None:
        """Raise DataFormatError if no option names a separator, and another one is certain."""
        if self._chosen or not self._is_doubtful:
            return
        divisions = [_division(separator, self._texts) for separator in CERTAIN if separator != self._separator]
        division = max(divisions, key=lambda division: division.rows)
        if division.rows <= SOME * self.rows or _moving_share(division.separator, self._texts) < MOVING:
            return
        # A separator that does not occur leaves names as they are.
        unused = (separator for separator in SEPARATORS if not any(separator in text for text in self._texts))
        harmless = self._separator or next(unused, ";")
        text = division.texts[0]
        where = f"{CERTAIN[division.separator]} in {division.rows} of {self.rows} rows"
        if self._separator in SEPARATORS:
            where += f", and {SEPARATORS[self._separator]} in {self._divided or 'none'}"
        raise reading.error(
            self._lines[text],
            f"labels such as {excerpt(text)} have {where}; give --label-separator {shlex.quote(division.separator)} if "
            f"that separates labels, or --label-separator {shlex.quote(harmless)} if it is part of their names",
        )

    def advice(self) -> str | None:
        """Return a sentence on another separator that texts of labels seem to have, or None."""
        if not self._is_doubtful:
            return None
        return _other_separator(self._texts, self._separator, is_chosen=self._chosen is not None)


class _Division(NamedTuple):
    """What a separator does: how many rows it divides, their distinct texts, and the names that they consist of."""

    separator: str
    rows: int
    texts: list[str]
    names: set[str]


def _division(separator: str, texts: Counter[str]) -> _Division:
    names_of = {}
    for text in texts:
        if separator in text:
            names = _names(text, separator)
            if len(names) > 1:
                names_of[text] = names
    rows = sum(texts[text] for text in names_of)
    return _Division(separator, rows, list(names_of), {name for names in names_of.values() for name in names})


def _names(text: str, separator: str) -> list[str]:
    return [name for name in map(str.strip, text.split(separator)) if name]


def _moving_share(separator: str, texts: Counter[str]) -> float:
    """Return the share of repeated names, by their number in divided rows, that stand in several places.

    Parts of a name keep their place: a given name follows a surname, a country ends an address, and a field of science
    begins its path. So the places of a label must differ both from the beginning and from the end of the row.
    """
    numbers: Counter[str] = Counter()
    divided: Counter[str] = Counter()
    beginnings: dict[str, set[int]] = defaultdict(set)
    ends: dict[str, set[int]] = defaultdict(set)
    for text, count in texts.items():
        names = _names(text, separator)
        for position, name in enumerate(dict.fromkeys(names)):
            numbers[name] += count
            divided[name] += count * (len(names) > 1)
            beginnings[name].add(position)
            ends[name].add(len(names) - position)
    repeated = [name for name, count in divided.items() if count and numbers[name] > 1]
    moving = sum(divided[name] for name in repeated if len(beginnings[name]) > 1 and len(ends[name]) > 1)
    return moving / max(sum(divided[name] for name in repeated), 1)


def _other_separator(texts: Counter[str], separator: str | None, is_chosen: bool) -> str | None:
    """Return a sentence on another separator that texts of labels seem to have, or None."""
    rows = sum(count for text, count in texts.items() if text.strip())
    candidates = (*SEPARATORS, *WITHIN_NAMES)
    divisions = [_division(candidate, texts) for candidate in candidates if candidate != separator]
    divisions = [division for division in divisions if division.rows]
    # Of several, the one that divides texts into fewer labels: a name may have a comma.
    usual = [division for division in divisions if division.separator in SEPARATORS]
    usual.sort(key=lambda division: (-division.rows, len(division.names)))
    for division in (*usual[:1], *(division for division in divisions if division.separator in WITHIN_NAMES)):
        is_usual = division.separator in SEPARATORS
        # Most of what it separates is a label alone, too, or occurs again and again.
        names = len(division.names)
        distinct = len(division.texts)
        alone = names <= distinct and MOST * names <= len(division.names & texts.keys())
        reused = alone or names < (distinct if is_usual else REUSED * distinct)
        if (reused and division.rows > SOME * rows) or (is_usual and not is_chosen and division.rows > MOST * rows):
            what = (SEPARATORS | WITHIN_NAMES)[division.separator]
            return (
                f"labels such as {excerpt(division.texts[0])} have {what} in {division.rows / rows:.0%} of the rows; "
                f"if it separates labels, give --label-separator {shlex.quote(division.separator)}"
            )
    return None


def merge_rows(documents: Iterable[Document], reading: Reading) -> Iterator[Document]:
    """Yield a document for each identifier, in the order of their first rows, with the labels of all its rows.

    Texts that differ are joined by spaces. All rows are in memory.
    """
    rows_of: dict[object, list[Document]] = {}
    for document in documents:
        if document.id in (None, ""):
            reason = "there is no identifier, which --merge-ids needs; --id-column names its column"
            raise reading.error(document.line, reason)
        rows_of.setdefault(document.id, []).append(document)
    for rows in rows_of.values():
        text = " ".join(filter(None, dict.fromkeys(row.text for row in rows)))
        yield rows[0]._replace(text=text, labels=[label for row in rows for label in row.labels])
