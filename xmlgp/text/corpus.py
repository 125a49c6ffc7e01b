"""Open and read corpora: a file of any of the formats, or a folder of documents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from xmlgp.data.files import format_ending, open_input
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.document_folder import read_folder
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document, Reading
from xmlgp.text.label_cells import divide_labels
from xmlgp.text.lines_of_text import (
    FASTTEXT_START,
    read_annif,
    read_fasttext,
    read_json_lines,
    read_lines,
    refuse_header,
)
from xmlgp.text.refusals import refuse_doubtful
from xmlgp.text.tables import header_fields, is_table_file, read_csv, read_table_file, read_tsv

__all__ = ["FORMATS", "format_of_corpus", "has_corpus_ending", "open_lines", "read_documents"]


class Format(NamedTuple):
    """How a format is read, from numbered lines to documents, and what separates labels within a text."""

    read: Callable[[Iterator[tuple[int, str]], Reading], Iterator[Document]]
    separator: str | None = None


#: The formats by the names that options have for them.
FORMATS = {
    "jsonl": Format(read_json_lines),
    "tsv": Format(read_tsv, ";"),
    "csv": Format(read_csv, ";"),
    "fasttext": Format(read_fasttext),
    "lines": Format(read_lines),
    "annif": Format(read_annif, " "),
}

#: The formats by endings of names that tell them alone.
ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


def has_corpus_ending(path: str) -> bool:
    """Return whether a name alone says that a file is a corpus."""
    return format_ending(path) in ENDINGS or is_table_file(path)


@contextlib.contextmanager
def open_lines(path: str, options: CorpusOptions = NO_OPTIONS) -> Iterator[LineReader | None]:
    """Open the lines of a file of text or of `-`; yield None for a corpus that has none, a folder or a table file."""
    if os.path.isdir(path) or is_table_file(path):
        yield None
        return
    with open_input(path, options.encoding) as stream:
        yield LineReader(stream, path, options.encoding)


def format_of_corpus(path: str, line: bytes, options: CorpusOptions = NO_OPTIONS, usual: Columns | None = None) -> str:
    """Return the name of the format of a corpus, one of `FORMATS`, by its name and its first line (bytes)."""
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    columns = options.columns(usual).text
    if name := options.format or ENDINGS.get(format_ending(path)):
        return name
    if text.lstrip().startswith(("{", "[")):
        return "jsonl"
    for name, delimiter in (("tsv", "\t"), ("csv", ",")):
        # A first line `text` may be a text.
        fields = header_fields(text, delimiter)
        if (options.text and delimiter in text) or (len(fields) > 1 and set(columns) <= set(fields)):
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
    """Yield the documents of a corpus that `open_lines` has opened; DataFormatError names a malformed line.

    Unless `with_texts`, columns of texts are not read, and may be missing. Unless `labelled`, documents need no labels,
    none are read, and a line may be a text alone. `usual` are the columns that the options do not name.
    """
    columns = options.columns(usual)
    read = columns if with_texts else columns._replace(text=())
    reading = Reading(path, read, labelled, options.id is not None, options.encoding, note)
    name = None
    if reader is None:
        is_folder = os.path.isdir(path)
        documents = read_folder(reading) if is_folder else read_table_file(reading)
        separator = None if is_folder else ";"
    else:
        lines = decoded_lines(reader)
        first = next(lines, None)
        if first is None:
            return
        name = format_of_corpus(path, first[1].encode(), options, columns)
        _check_first_line(first[1], name, reading, options)
        documents = FORMATS[name].read(chain([first], lines), reading)
        separator = FORMATS[name].separator
    is_cell = separator is not None or name == "fasttext"
    documents = _normalized(documents, reading, columns.separator or separator, is_cell)
    if labelled:
        documents = refuse_doubtful(documents, reading, name == "annif" and options.format is None)
    yield from documents


def _check_first_line(line: str, format: str, reading: Reading, options: CorpusOptions) -> None:
    """Raise DataFormatError if a first line is a header or has no labels; note where a tab is taken to precede them."""
    if reading.labelled and format == "lines":
        reason = f"{excerpt(line)} is not the first line of a corpus with labels, as docs/text.md has them"
        raise reading.error(1, reason)
    if options.format is None and format in ("annif", "lines"):
        refuse_header(line, reading)
        if format == "annif" and not reading.labelled:
            reading.note(f"{reading.path}: taking what follows a tab as labels; --corpus-format lines takes it as text")


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
