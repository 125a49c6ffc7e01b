"""Documents in lines without a header: text before its labels as for Annif, after them as for fastText, or alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import PAGE, Document, Reading

__all__ = ["FASTTEXT_START", "read_annif", "read_fasttext", "read_lines", "refuse_header"]

#: The prefix of labels in fastText's format.
PREFIX = "__label__"

#: What tells fastText's format: a label, perhaps after a quote.
FASTTEXT_START = re.compile(rf"(?<!\S)[\"']*{PREFIX}")

#: Labels in angle brackets at the end of a line, which is read backwards: otherwise each tab would be tried.
BRACKETS = re.compile(r"(?:\s*>[^<>\s]+<)+\s*")

#: Usual names of columns, which a first line has only if it is a header.
USUAL_COLUMNS = {
    *("abstract", "body", "content", "description", "document", "id", "sentence", "text", "texts", "title"),
    *("categories", "category", "class", "keywords", "label", "labels"),
    *("subject", "subjects", "tag", "tags", "topic", "topics"),
}


def refuse_header(line: str, reading: Reading) -> None:
    """Raise DataFormatError if the first line has usual names of columns in place of a text."""
    names = [name.strip(" \"'").lower() for name in re.split(r"[\t,;|]", line)]
    if len(names) > 1 and set(names) <= USUAL_COLUMNS:
        raise reading.error(
            1,
            f"this seems to be the header of a table; --text-column names its column of texts, {PAGE} has tables with "
            "other separators, and --corpus-format takes the line as a document",
        )


def read_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents, each line the text of one."""
    return (Document(number, None, line, []) for number, line in lines)


def read_annif(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents `text<TAB>label label ...`; if all labels are in angle brackets, the text may have tabs."""
    for number, line in _with_content(lines):
        brackets = BRACKETS.match(line[::-1])
        tab = line.find("\t", len(line) - brackets.end()) if brackets else -1
        if tab >= 0:
            yield Document(number, None, line[:tab], re.findall("<([^<>]+)>", line[tab:]))
            continue
        text, tabs, labels = line.partition("\t")
        if reading.labelled and (not tabs or re.search("[<>\t]", labels)):
            reason = f"a line must be a text, one tab and labels, <in brackets> or none of them; {PAGE} has other files"
            raise reading.error(number, reason)
        yield Document(number, None, text, [labels])


def read_fasttext(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents `__label__a __label__b text`."""
    for number, line in _with_content(lines):
        names, tab, _ = line.partition("\t")
        words = split_at_blanks(line)
        labels = [word for word in words if word.startswith(PREFIX)]
        if line.count("__label") > len(labels) or PREFIX in labels:
            raise reading.error(number, f"labels must be {PREFIX}NAME, without a blank, a quote or another prefix")
        if tab and names.startswith(PREFIX) and not all(word.startswith(PREFIX) for word in split_at_blanks(names)):
            raise reading.error(number, "a name before the tab has blanks, which end a label; write _ in their place")
        text = " ".join(word for word in words if not word.startswith(PREFIX))
        yield Document(number, None, text, [label.removeprefix(PREFIX) for label in labels])


def _with_content(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of lines that are not blank."""
    return ((number, line) for number, line in lines if "\t" in line or line.strip())
