"""Open and read corpora: a file of any of the formats, or a folder of documents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, TypeAlias

from xmlgp.data.file_kinds import format_ending
from xmlgp.data.formats import is_rows
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import open_input
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document, Reading, StoredCorpus
from xmlgp.text.json_lines import read_json_lines
from xmlgp.text.label_cells import divide_labels
from xmlgp.text.lines_of_text import FASTTEXT_START, read_annif, read_fasttext, read_lines, refuse_header
from xmlgp.text.refusals import refuse_doubtful
from xmlgp.text.table_files import TableFile, is_table_file
from xmlgp.text.tables import header_fields, read_csv, read_tsv

__all__ = ["FORMATS", "Reader", "format_of_corpus", "has_corpus_ending", "is_corpus", "open_corpus", "read_documents"]

#: What `open_corpus` yields.
Reader: TypeAlias = LineReader | StoredCorpus


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


def is_corpus(path: str, line: bytes, strict: bool = True) -> bool:
    """Return whether a file is a corpus, not rows of numbers (`is_rows`), by its name and its first line (bytes)."""
    return has_corpus_ending(path) or not is_rows(line, strict)


@contextlib.contextmanager
def open_corpus(path: str | os.PathLike[str], options: CorpusOptions = NO_OPTIONS) -> Iterator[Reader]:
    """Open a corpus; yield the `LineReader` of a file of text or of `-`, or what is stored otherwise."""
    path = os.fspath(path)
    if os.path.isdir(path):
        yield DocumentFolder(path, options.encoding)
    elif is_table_file(path):
        yield TableFile(path)
    else:
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
    reader: Reader,
    options: CorpusOptions = NO_OPTIONS,
    usual: Columns | None = None,
    labelled: bool = True,
    note: Callable[[str], object] = ignore,
    with_texts: bool = True,
) -> Iterator[Document]:
    """Yield the documents of a corpus that `open_corpus` has opened; DataFormatError names a malformed line.

    Unless `with_texts`, the columns of texts may be missing. Unless `labelled`, documents need no labels, none are
    read, and a line may be a text alone.
    """
    reading = Reading(reader.path, options.columns(usual), labelled, with_texts, options.id is not None, note)
    if isinstance(reader, StoredCorpus):
        separator = ";" if isinstance(reader, TableFile) else None
        documents = reader.documents(reading)
        name = "jsonl"
    else:
        lines = decoded_lines(reader)
        first = next(lines, None)
        if first is None:
            return
        name = format_of_corpus(reader.path, first[1].encode(), options, usual)
        if labelled and name == "lines":
            reason = f"{excerpt(first[1])} is not the first line of a corpus with labels, as docs/text.md has them"
            raise reading.error(1, reason)
        if name in ("annif", "lines") and options.format is None:
            refuse_header(first[1], reading)
        if name == "annif" and options.format is None and not labelled:
            note(f"{reader.path}: taking what follows a tab as labels; --corpus-format lines takes it as text")
        separator = FORMATS[name].separator
        documents = FORMATS[name].read(chain([first], lines), reading)
    documents = _normalized(documents, reading, separator, name != "jsonl" or isinstance(reader, TableFile))
    if labelled:
        documents = refuse_doubtful(documents, reading, name == "annif" and options.format is None)
    yield from documents


def _normalized(
    documents: Iterator[Document], reading: Reading, separator: str | None, are_cells: bool
) -> Iterator[Document]:
    """Yield documents with identifiers and names of labels as other files have them too, and labels divided.

    The separator is that of the format, if the columns have none.
    """
    separator = reading.columns.separator or separator
    for document in documents:
        id = document.id
        if isinstance(id, str):
            id = " ".join(id.split())
        labels = []
        for text in document.labels if reading.labelled else ():
            try:
                labels += divide_labels(text, separator, are_cells)
            except ValueError as error:
                raise reading.error(document.line, f"the labels are {excerpt(text)}: {error}") from None
        yield document._replace(id=id, labels=list(map(normalized_name, labels)))
