"""Documents in lines: JSON objects, text before its labels as for Annif, after them as for fastText, or alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import PAGE, Document, Reading

__all__ = ["FASTTEXT_START", "read_annif", "read_fasttext", "read_json_lines", "read_lines", "refuse_header"]

#: Half of a surrogate pair, by which JSON may write a character.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

#: The prefix of labels in fastText's format.
PREFIX = "__label__"

#: What tells fastText's format: a label, perhaps after a quote.
FASTTEXT_START = re.compile(rf"(?<!\S)[\"']*{PREFIX}")

#: Labels in angle brackets.
BRACKETS = re.compile(r"\s*(?:<[^<>\s]+>\s*)+")

#: A usual name of a column.
USUAL_COLUMN = re.compile(
    "abstract|body|content|description|document|id|sentence|texts?|title|categor(y|ies)|class|keywords|labels?"
    "|subjects?|tags?|topics?"
)


def refuse_header(line: str, reading: Reading) -> None:
    """Raise DataFormatError if the first line has usual names of columns in place of a text."""
    names = [name.strip(" \"'").lower() for name in re.split(r"[\t,;|]", line)]
    if len(names) > 1 and all(map(USUAL_COLUMN.fullmatch, names)):
        raise reading.error(
            1,
            f"this seems to be the header of a table; --text-column names its column of texts, {PAGE} has tables with "
            "other separators, and --corpus-format takes the line as a document",
        )


def read_json_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield the documents of JSON objects, one a line."""
    for number, line in _with_content(lines):
        try:
            value = json.loads(line, object_pairs_hook=_object)
            if SURROGATE.search(line):
                # Half of a pair is no character.
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            reason = f"the line is not JSON ({error}); an object must be in one line, as `jq -c . FILE` writes it"
            raise reading.error(number, reason) from None
        if not isinstance(value, dict):
            reason = f"the line is {excerpt(value)}, not an object; `jq -c '.[]' FILE` writes those of an array"
            raise reading.error(number, reason)
        yield reading.document(number, value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; ValueError if it has a field twice, of which only the last would be read."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{excerpt(name)} occurs twice")
        fields[name] = value
    return fields


def read_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents, each line the text of one."""
    return (Document(number, None, line, []) for number, line in lines)


def read_annif(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents `text<TAB>label label ...`; all labels or none are in angle brackets."""
    for number, line in _with_content(lines):
        text, tab, labels = line.partition("\t")
        in_brackets = BRACKETS.fullmatch(labels)
        if reading.labelled and (not tab or (not in_brackets and re.search("[<>\t]", labels))):
            reason = f"a line must be a text, one tab and labels, <in brackets> or none of them; {PAGE} has other files"
            raise reading.error(number, reason)
        yield Document(number, None, text, re.findall("<([^<>]+)>", labels) if in_brackets else [labels])


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


def _with_content(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of lines that are not blank."""
    return ((number, line) for number, line in lines if "\t" in line or line.strip())
