"""Documents in lines without a header: text with labels before or after it, as Annif, fastText and PECOS have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import ASCII_BLANKS, split_at_blanks
from xmlgp.text.documents import Document, Reading

__all__ = [
    "FASTTEXT_LABEL",
    "OTHER_PREFIX",
    "QUOTES",
    "are_label_numbers",
    "read_annif",
    "read_fasttext",
    "read_pecos",
    "read_plain",
    "tab_before_brackets",
]

#: The prefix of labels in fastText's format.
FASTTEXT_LABEL = "__label__"

#: Prefixes that are used in place of it.
OTHER_PREFIX = re.compile(r"(?!__label__)__label[A-Za-z0-9]*__\S", re.IGNORECASE)

#: What programs put around a line or a field.
QUOTES = "\"'"

#: What looks like the header of a table.
HEADER = re.compile(r"\w+(?:[,;|]\w+)+")

#: The beginning of a file of markup.
MARKUP = re.compile(r"\s*<(?:\?xml|!DOCTYPE|html)\b", re.IGNORECASE)

#: Names of columns that a first line has instead of a text and labels.
USUAL_COLUMNS = {
    *("abstract", "body", "content", "description", "document", "sentence", "text", "texts", "title"),
    *("categories", "category", "class", "classes", "keywords", "label", "labels"),
    *("subject", "subjects", "tag", "tags", "topic", "topics"),
}

#: The number of a label in PECOS's format, perhaps with its relevance.
LABEL_NUMBER = re.compile(r"[0-9]+(?:::-?[0-9.]+(?:[eE][+-]?[0-9]+)?)?")

#: A label in angle brackets, or without.
LABEL = re.compile(rf"<([^<>]+)>(?![^{ASCII_BLANKS}<])|[^{ASCII_BLANKS}]+")


def read_plain(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents, each line the text of one."""
    for number, line in lines:
        if number == 1 and MARKUP.match(line):
            raise DataFormatError(reading.path, 1, "this is markup, not lines of text; extract the texts from it first")
        if number == 1 and not reading.columns.header and HEADER.fullmatch(line):
            advice = "if it is a table, --text-column says which column has the text"
            reading.note(f"{reading.path}: each line is read as a text; {advice}")
        yield Document(number, None, line, [])


def read_annif(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents `text<TAB>label label ...`; a label may be in angle brackets, and then a text may have tabs."""
    for number, line in _with_content(lines):
        _refuse_header(number, line, reading)
        place = tab_before_brackets(line)
        if place is not None:
            text = line[:place]
            labels = line[place + 1 :]
        else:
            text, tab, labels = line.partition("\t")
            reason = None
            if not reading.labelled:
                pass
            elif not tab:
                reason = "there is no tab between a text and its labels"
            elif "\t" in labels.strip():
                reason = (
                    "there are several tabs; a text with tabs needs labels in brackets, `<label> <label>`, and the "
                    "columns of a table without a header need --columns"
                )
            elif any(map(_has_one_bracket, _names(labels))):
                reason = f"a label has a bracket without the other one, in {excerpt(labels)}"
            if reason:
                raise DataFormatError(reading.path, number, reason)
        if not reading.labelled:
            yield Document(number, None, text, [])
        else:
            # Without brackets, an option can say what separates labels.
            yield Document(number, None, text, _names(labels) if "<" in labels else labels)


def tab_before_brackets(line: str) -> int | None:
    """Return the place of the first tab in a line after which there are only labels in angle brackets, or None.

    The text before may have tabs. The time is linear in the length of the line, which a search would not be.
    """
    place = None
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
            place = tab
    return place


def _refuse_header(number: int, line: str, reading: Reading) -> None:
    """Raise DataFormatError if the first line has usual names of columns in place of a text and labels."""
    fields = [field.strip() for field in line.split("\t")]
    # A line `text` may be a text.
    if number == 1 and len(fields) > 1 and all(field.lower() in USUAL_COLUMNS for field in fields):
        text, *_, label = fields
        reason = (
            f"this seems to be the header of a table; `--text-column {text} --label-column {label}` reads its columns, "
            "and `--columns text,labels` a table without a header"
        )
        raise DataFormatError(reading.path, number, reason)


def _has_one_bracket(label: str) -> bool:
    """Return whether a label begins or ends with a bracket: those in both have none any more."""
    return label.startswith("<") or label.endswith(">")


def _names(labels: str) -> list[str]:
    """Return labels that blanks separate, without their brackets."""
    return [found[1] or found[0] for found in LABEL.finditer(labels)]


def _with_content(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of lines that are not blank."""
    return ((number, line) for number, line in lines if "\t" in line or line.strip())


def read_fasttext(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents `__label__a __label__b text`."""
    torn = []
    for number, line in lines:
        words = split_at_blanks(line)
        names, tab, rest = line.partition("\t")
        if tab and rest.strip() and names.startswith(FASTTEXT_LABEL) and FASTTEXT_LABEL not in rest:
            torn += [name for name in map(str.strip, names.split(FASTTEXT_LABEL)) if " " in name]
        other = next((word for word in words if OTHER_PREFIX.match(word)), None)
        if other:
            reason = f"a label begins with {FASTTEXT_LABEL}, unlike {excerpt(other)}; `sed` can replace the prefix"
            yield DataFormatError(reading.path, number, reason)
        elif any(word[:1] in QUOTES and word.lstrip(QUOTES).startswith(FASTTEXT_LABEL) for word in words):
            reason = f"a quote is before {FASTTEXT_LABEL}; lines of fastText have no quotes around them"
            yield DataFormatError(reading.path, number, reason)
        elif words:
            labels = [word.removeprefix(FASTTEXT_LABEL) for word in words if word.startswith(FASTTEXT_LABEL)]
            text = " ".join(word for word in words if not word.startswith(FASTTEXT_LABEL))
            yield Document(number, None, text, labels)
    if torn and reading.labelled:
        what = f"names before a tab have blanks, such as {excerpt(torn[0])}; what follows a blank counts as text"
        reading.note(f"{reading.path}: {what}, unless another character takes its place")


def read_pecos(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents `label,label,...<TAB>text`, whose labels are numbers; those of a relevance of 0 are left out."""
    for number, line in _with_content(lines):
        labels, tab, text = line.partition("\t")
        if not tab:
            yield DataFormatError(reading.path, number, "there is no tab between the numbers of labels and the text")
        elif labels and not are_label_numbers(labels):
            reason = (
                "the labels before the tab must be nonnegative integers, separated by commas, as the first line has "
                "them; `--corpus-format annif` reads a text before its labels"
            )
            yield DataFormatError(reading.path, number, reason)
        else:
            pairs = [label.partition("::") for label in labels.split(",")] if labels else []
            yield Document(number, None, text, [label for label, _, relevance in pairs if _is_relevant(relevance)])


def are_label_numbers(text: str) -> bool:
    """Return whether a text has the numbers of labels as the first field of a line in PECOS's format."""
    return all(map(LABEL_NUMBER.fullmatch, text.split(",")))


def _is_relevant(relevance: str) -> bool:
    """Return whether a label counts, by its relevance, a text that may be empty."""
    try:
        return not relevance or float(relevance) > 0
    except ValueError:  # several points
        return True
