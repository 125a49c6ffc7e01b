"""Documents in lines without a header: text with labels before or after it, as Annif, fastText and PECOS have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import ASCII_BLANKS, split_at_blanks
from xmlgp.text.delimited import header_fields
from xmlgp.text.documents import Document, Reading
from xmlgp.text.doubts import (
    doubt_labels,
    note_returns,
    odd_labels,
    quoted_labels,
    refuse_identifiers_as_labels,
    refuse_text_as_labels,
    unlikely_labels,
)
from xmlgp.text.format import Format, Start

__all__ = ["ANNIF", "FASTTEXT", "FASTTEXT_LABEL", "LINES", "PECOS", "tab_before_brackets"]

#: The prefix of labels in fastText's format.
FASTTEXT_LABEL = "__label__"

#: A label with another prefix that people use.
OTHER_LABEL = r"(?i:(?!__label__)__label[A-Za-z0-9]*__\S+)"

#: What tells fastText's format: a label, perhaps with a quote before it or with another prefix.
FASTTEXT_START = re.compile(rf"(?<!\S)(?:[\"']*{FASTTEXT_LABEL}|{OTHER_LABEL})")

#: A label that is refused: with another prefix, or with quotes before it.
WRONG_LABEL = re.compile(rf"(?<![^{ASCII_BLANKS}])(?:({OTHER_LABEL})|[\"']+{FASTTEXT_LABEL})")

#: What looks like the header of a table.
HEADER = re.compile(r"\w+(?:[,;|]\w+)+")

#: The beginning of a file of markup.
MARKUP = re.compile(r"\s*<(?:\?xml|!DOCTYPE|html)\b", re.IGNORECASE)

#: Usual names of columns, which a first line has only if it is a header.
USUAL_COLUMNS = {
    *("abstract", "body", "content", "description", "document", "sentence", "text", "texts", "title"),
    *("categories", "category", "class", "classes", "keywords", "label", "labels"),
    *("subject", "subjects", "tag", "tags", "topic", "topics"),
}

#: The number of a label in PECOS's format, perhaps with its relevance.
LABEL_NUMBER = re.compile(r"[0-9]+(?:::-?[0-9.]+(?:[eE][+-]?[0-9]+)?)?")

#: A label in angle brackets, or without.
LABEL = re.compile(rf"<([^<>]+)>(?![^{ASCII_BLANKS}<])|[^{ASCII_BLANKS}]+")


def _is_fasttext(start: Start) -> bool:
    return bool(FASTTEXT_START.search(start.line))


def _is_lines(start: Start) -> bool:
    return "\t" not in start.line


def _is_pecos(start: Start) -> bool:
    # A document may have no labels, and one of Annif's has some text.
    labels = start.line.partition("\t")[0]
    return not labels or _are_label_numbers(labels)


def _is_annif(start: Start) -> bool:
    return start.line.count("\t") == 1 or tab_before_brackets(start.line) is not None


def _read_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents, each line the text of one."""
    header = reading.columns.header
    for number, line in lines:
        if number == 1 and MARKUP.match(line):
            raise reading.error(1, "this is markup, not lines of text; extract the texts from it first")
        if number == 1 and not header and HEADER.fullmatch(line):
            reading.tell("each line is read as a text; if it is a table, --text-column says which column has the text")
        if number == 1 and len(header) > 1 and len(header_fields(line, ",")) == len(header):
            reading.tell("each line is a text; --corpus-format csv reads the columns of the model, at commas")
        yield Document(number, None, line, [])


def _read_annif(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents `text<TAB>label label ...`; a label may be in angle brackets, and then a text may have tabs."""
    for number, line in _with_content(lines):
        if number == 1:
            _refuse_header(line, reading)
        tab = tab_before_brackets(line)
        if tab is None:
            tab = line.find("\t")
            if reading.labelled:
                _check_labels(number, line, tab, reading)
        text = line if tab < 0 else line[:tab]
        labels = line[tab + 1 :] if reading.labelled else ""
        # Without brackets, an option can say what separates labels.
        yield Document(number, None, text, _names(labels) if "<" in labels or not reading.labelled else labels)


def _check_labels(number: int, line: str, tab: int, reading: Reading) -> None:
    """Raise DataFormatError if a line is not a text, one tab at the position `tab`, and labels."""
    labels = line[tab + 1 :]
    if tab < 0:
        raise reading.error(number, "there is no tab between a text and its labels")
    if "\t" in labels.strip():
        raise reading.error(
            number,
            "there are several tabs; a text with tabs needs labels in brackets, `<label> <label>`, and the columns of "
            "a table without a header need --columns",
        )
    # `_names` takes two brackets off, so what is left is one without the other.
    if any(name.startswith("<") or name.endswith(">") for name in _names(labels)):
        raise reading.error(number, f"a label has a bracket without the other one, in {excerpt(labels)}")


def tab_before_brackets(line: str) -> int | None:
    """Return the position of the first tab in a line after which there are only labels in angle brackets, or None.

    The text before may have tabs. The time is linear in the length of the line, which a search would not be.
    """
    position = None
    end = len(line.rstrip())
    while end and line[end - 1] == ">":
        opening = line.rfind("<", 0, end)
        if opening in (-1, end - 2) or line.find(">", opening, end - 1) >= 0:
            break
        end = opening
        while end and line[end - 1].isspace():
            end -= 1
        tab = line.find("\t", end, opening)
        if tab >= 0:
            position = tab
    return position


def _refuse_header(line: str, reading: Reading) -> None:
    """Raise DataFormatError if the first line has usual names of columns in place of a text and labels."""
    names = [name.strip() for name in line.split("\t")]
    # A line `text` may be a text.
    if len(names) > 1 and all(name.lower() in USUAL_COLUMNS for name in names):
        raise reading.error(
            1,
            f"this seems to be the header of a table; `--text-column {names[0]} --label-column {names[-1]}` reads its "
            "columns, and `--columns text,labels` a table without a header",
        )


def _names(labels: str) -> list[str]:
    """Return labels that blanks separate, without their brackets."""
    return [match[1] or match[0] for match in LABEL.finditer(labels)]


def _with_content(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of lines that are not blank."""
    return ((number, line) for number, line in lines if "\t" in line or line.strip())


def _read_fasttext(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents `__label__a __label__b text`."""
    torn: list[str] = []
    for number, line in lines:
        names, _, text = line.partition("\t")
        if text.strip() and names.startswith(FASTTEXT_LABEL) and FASTTEXT_LABEL not in text:
            torn += [name for name in map(str.strip, names.split(FASTTEXT_LABEL)) if " " in name]
        wrong = WRONG_LABEL.search(line)
        if wrong and wrong[1]:
            reason = f"a label begins with {FASTTEXT_LABEL}, unlike {excerpt(wrong[1])}; `sed` can replace the prefix"
            yield reading.error(number, reason)
        elif wrong:
            reason = f"a quote is before {FASTTEXT_LABEL}; lines of fastText have no quotes around them"
            yield reading.error(number, reason)
        elif words := split_at_blanks(line):
            labels = [word.removeprefix(FASTTEXT_LABEL) for word in words if word.startswith(FASTTEXT_LABEL)]
            text = " ".join(word for word in words if not word.startswith(FASTTEXT_LABEL))
            yield Document(number, None, text, labels)
    if torn and reading.labelled:
        reading.tell(
            f"names before a tab have blanks, such as {excerpt(torn[0])}; what follows a blank counts as text, unless "
            "another character takes its place"
        )


def _read_pecos(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents `label,label,...<TAB>text`, whose labels are numbers; those of a relevance of 0 are left out."""
    for number, line in _with_content(lines):
        numbers, tab, text = line.partition("\t")
        if not tab:
            yield reading.error(number, "there is no tab between the numbers of labels and the text")
        elif numbers and not _are_label_numbers(numbers):
            reason = (
                "the labels before the tab must be nonnegative integers, separated by commas, as the first line has "
                "them; `--corpus-format annif` reads a text before its labels"
            )
            yield reading.error(number, reason)
        else:
            pairs = [label.partition("::") for label in numbers.split(",")] if numbers else []
            yield Document(number, None, text, [label for label, _, relevance in pairs if _is_relevant(relevance)])


def _are_label_numbers(text: str) -> bool:
    """Return whether a text is the first field of a line in PECOS's format: numbers of labels."""
    return all(map(LABEL_NUMBER.fullmatch, text.split(",")))


def _is_relevant(relevance: str) -> bool:
    """Return whether a label counts, by its relevance, a text that may be empty."""
    try:
        return not relevance or float(relevance) > 0
    except ValueError:  # several points
        return True


#: The format of fastText.
FASTTEXT = Format(
    "fasttext", _is_fasttext, _read_fasttext, doubts=(doubt_labels(unlikely_labels, odd_labels), note_returns)
)
#: Texts without labels, one a line.
LINES = Format("lines", _is_lines, _read_lines, has_labels=False, doubts=(note_returns,))
#: The format of PECOS.
PECOS = Format(
    "pecos", _is_pecos, _read_pecos, doubts=(doubt_labels(unlikely_labels),), refusals=(refuse_identifiers_as_labels,)
)
#: Annif's corpora of short texts.
ANNIF = Format(
    "annif",
    _is_annif,
    _read_annif,
    separator=" ",
    doubts=(doubt_labels(unlikely_labels, quoted_labels), note_returns),
    refusals=(refuse_text_as_labels,),
)
