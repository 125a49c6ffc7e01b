"""Read corpora: a file of lines in any of the formats, a table, or a folder of documents.

Lines are JSON objects, text before its labels as for Annif, after them as for fastText, or alone. Tables and folders
have files of their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from xmlgp.data.files import format_ending
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.document_folder import read_folder
from xmlgp.text.documents import NO_OPTIONS, PAGE, Columns, CorpusOptions, Document, Reading
from xmlgp.text.label_names import divide_labels, normalized_name, split_at_blanks
from xmlgp.text.refusals import refuse_doubtful
from xmlgp.text.tables import header_fields, read_csv, read_table_file, read_tsv

__all__ = ["ENDINGS", "FORMATS", "format_of_corpus", "read_documents"]

#: Half of a surrogate pair, by which JSON may write a character.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

#: The prefix of labels in fastText's format.
PREFIX = "__label__"

#: What tells fastText's format: a label, perhaps after a quote.
FASTTEXT_START = re.compile(rf"(?<!\S)[\"']*{PREFIX}")

#: Lines with fewer words are short, as empty lines and headings are; where a file has at least so many lines and more
#: than this share of them is short, it may be one document.
SHORT_WORDS = 3
SHORT_LINES = 8
SHORT_SHARE = 0.2

#: The start of an object in JSON, perhaps the first of an array: a text may begin with other braces and brackets.
JSON_START = re.compile(r"\s*\[?\s*\{\s*\"")

#: Labels in angle brackets.
BRACKETS = re.compile(r"\s*(?:<[^<>\s]+>\s*)+")

#: A usual name of a column.
USUAL_COLUMN = re.compile(
    "abstract|body|content|description|document|id|sentence|texts?|title|categor(y|ies)|class|keywords|labels?"
    "|subjects?|tags?|topics?"
)


def _refuse_header(line: str, reading: Reading) -> None:
    """Raise DataFormatError if the first line has usual names of columns in place of a text."""
    names = [name.strip(" \"'").lower() for name in re.split(r"[\t,;|]", line)]
    if len(names) > 1 and all(map(USUAL_COLUMN.fullmatch, names)):
        raise reading.error(
            1,
            f"this seems to be the header of a table; --text-column names its column of texts, {PAGE} has tables with "
            "other separators, and --corpus-format takes the line as a document",
        )


def _read_json_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
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
            raise reading.error(
                number, f"the line is {excerpt(value)}, not an object; `jq -c '.[]' FILE` writes those of an array"
            )
        yield reading.document(number, value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; ValueError if it has a field twice, of which only the last would be read."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"{excerpt(name)} occurs twice")
        fields[name] = value
    return fields


def _read_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents, each line the text of one; note that many are short, as those of one document are."""
    number = short = 0
    for number, line in lines:
        short += len(line.split()) < SHORT_WORDS
        yield Document(number, None, line, [])
    if number >= SHORT_LINES and short > SHORT_SHARE * number:
        reason = (
            f"{short} of {number} lines have fewer than {SHORT_WORDS} words; --whole takes all lines as one document"
        )
        reading.note(f"{reading.path}: {reason}")


def _read_annif(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
    """Yield documents `text<TAB>label label ...`; all labels or none are in angle brackets."""
    for number, line in _with_content(lines):
        text, tab, labels = line.partition("\t")
        in_brackets = BRACKETS.fullmatch(labels)
        if reading.labelled and (not tab or (not in_brackets and re.search("[<>\t]", labels))):
            reason = f"a line must be a text, one tab and labels, <in brackets> or none of them; {PAGE} has other files"
            raise reading.error(number, reason)
        yield Document(number, None, text, re.findall("<([^<>]+)>", labels) if in_brackets else [labels])


def _read_fasttext(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document]:
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


#: How the formats are read, from numbered lines to documents, by the names that options have for them.
FORMATS = {
    "jsonl": _read_json_lines,
    "tsv": read_tsv,
    "csv": read_csv,
    "fasttext": _read_fasttext,
    "lines": _read_lines,
    "annif": _read_annif,
}

#: What separates labels within a text; nothing in other formats. A table is a workbook or a Parquet file.
SEPARATORS = {"tsv": ";", "csv": ";", "table": ";", "annif": " "}

#: What has no columns that options could name.
NO_COLUMNS = {"annif", "fasttext", "folder", "lines"}

#: The formats by endings of names that tell them alone.
ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


def format_of_corpus(
    path: str, line: bytes, options: CorpusOptions = NO_OPTIONS, usual: Columns | None = None, labelled: bool = True
) -> str:
    """Return the name of the format of a corpus, one of `FORMATS`, by its name and its first line (bytes).

    Where documents need no labels, only the start of an object tells JSON, as any line may be a text.
    """
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    columns = options.columns(usual).text
    if name := options.format or ENDINGS.get(format_ending(path)):
        return name
    if JSON_START.match(text) or (labelled and text.lstrip().startswith(("{", "["))):
        return "jsonl"
    for name, delimiter in (("tsv", "\t"), ("csv", ",")):
        # A first line `text` may be a text.
        if delimiter in text and (options.text or set(columns) <= set(header_fields(text, delimiter))):
            return name
    if FASTTEXT_START.search(text):
        return "fasttext"
    return "annif" if "\t" in text else "lines"


def read_documents(
    path: str,
    reader: LineReader | None,
    options: CorpusOptions = NO_OPTIONS,
    usual: Columns | None = None,
    labelled: bool = True,
    note: Callable[[str], object] = ignore,
    with_texts: bool = True,
) -> Iterator[Document]:
    """Yield the documents of a corpus, of lines unless its reader is None; DataFormatError names a malformed line.

    Unless `with_texts`, columns of texts are not read, and may be missing. Unless `labelled`, documents need no labels,
    none are read, and a line may be a text alone. `usual` are the columns that the options do not name.
    """
    columns = options.columns(usual)
    read = columns if with_texts else columns._replace(text=())
    group = options.group if labelled and with_texts else None
    reading = Reading(path, read, labelled, options.id is not None, options.encoding, note, group)
    if os.path.isdir(path):
        name, documents = "folder", read_folder(reading)
    elif reader is None:
        name, documents = "table", read_table_file(reading)
    else:
        lines = decoded_lines(reader)
        first = next(lines, None)
        if first is None:
            return
        name = format_of_corpus(path, first[1].encode(), options, columns, labelled)
        _check_first_line(first[1], name, reading, options)
        documents = FORMATS[name](chain([first], lines), reading)
    if name in NO_COLUMNS:
        given = options.columns(Columns((), ()))
        for column in filter(None, (*given.text, *given.labels, given.id, options.group)):
            raise reading.error(1, f"the format {name} has no columns, so none is {excerpt(column)}")
    separator = SEPARATORS.get(name)
    is_cell = separator is not None or name == "fasttext"
    documents = _normalized(documents, reading, columns.separator or separator, is_cell)
    if labelled:
        documents = refuse_doubtful(documents, reading, name == "annif" and options.format is None)
    yield from documents


def _check_first_line(line: str, format: str, reading: Reading, options: CorpusOptions) -> None:
    """Raise DataFormatError if a first line is a header, or has no labels or columns; note what a tab is taken for."""
    if reading.labelled and format == "lines":
        raise reading.error(
            1, f"{excerpt(line)} is not the first line of a corpus with labels, as docs/text.md has them"
        )
    if options.format is None and format in ("annif", "lines"):
        _refuse_header(line, reading)
        if format == "annif" and not reading.labelled:
            reading.note(f"{reading.path}: taking what follows a tab as labels; --corpus-format lines takes it as text")
        if line.lstrip().startswith(("{", "[")):
            reading.note(f"{reading.path}: taking the lines as texts; --corpus-format jsonl reads objects, one a line")


def _normalized(
    documents: Iterator[Document], reading: Reading, separator: str | None, is_cell: bool
) -> Iterator[Document]:
    """Yield documents with identifiers and names of labels as other files have them too, and labels divided."""
    for document in documents:
        id = " ".join(document.id.split()) if isinstance(document.id, str) else document.id
        labels = []
        for text in document.labels if reading.labelled else ():
            try:
                labels += divide_labels(text, separator, is_cell)
            except ValueError as error:
                raise reading.error(document.line, f"the labels are {excerpt(text)}: {error}") from None
        yield document._replace(id=id, labels=list(map(normalized_name, labels)))
