"""Open and read corpora: a file of any of the formats, or a folder of documents."""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial

from xmlgp.data.file_kinds import ARFF, is_binary, refusal
from xmlgp.data.formats import is_rows
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import open_any
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt, quote
from xmlgp.text.arff import open_arff
from xmlgp.text.delimited import CSV
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document, Reading
from xmlgp.text.doubts import doubt_labels, odd_labels, unlikely_labels
from xmlgp.text.format import Format
from xmlgp.text.formats import FORMATS, format_of_corpus, has_corpus_ending
from xmlgp.text.headerless import FASTTEXT_LABEL
from xmlgp.text.label_rows import merge_rows, split_labels
from xmlgp.text.table_files import LIBRARIES, TableFile, open_table
from xmlgp.text.table_rows import documents_of_rows

__all__ = ["is_corpus", "open_corpus", "read_documents"]

#: The first bytes of text in UTF-16.
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

#: Usual encodings besides UTF-8. Others are so similar to these that a few lines do not tell them apart.
ENCODINGS = ["cp1252", "cp1251", "cp1253", "cp932", "gb18030", "big5", "euc_kr"]

#: Bytes from which the encoding is guessed.
GUESSED = 4096

#: Bytes that a message shows in the guessed encoding.
SHOWN = 30


#: What may be doubted of a folder.
FOLDER_DOUBT = doubt_labels(partial(unlikely_labels, advice=""), odd_labels)

#: What to do where no encoding can be guessed.
NO_GUESS = "; --encoding names its encoding, such as cp1252"


def is_corpus(path: str, line: bytes, strict: bool = True) -> bool:
    """Return whether a file is a corpus, not rows of numbers (`is_rows`), by its name and its first line (bytes)."""
    return has_corpus_ending(path) or not is_rows(path, line, strict)


@contextlib.contextmanager
def open_corpus(
    path: str, options: CorpusOptions = NO_OPTIONS, note: Callable[[str], object] = ignore
) -> Iterator[LineReader | TableFile | DocumentFolder]:
    """Open a corpus; yield the `LineReader` of a file or of `-`, a `TableFile`, or the `DocumentFolder` of a folder."""
    if os.path.isdir(path):
        yield DocumentFolder(path, options.encoding, note)
        return
    with open_any(path) as opened:
        if opened.kind in LIBRARIES:
            with open_table(opened.stream, opened.kind, path, note) as table:
                yield table
        elif opened.kind is ARFF:
            with open_arff(opened, path, options.encoding) as corpus:
                yield corpus
        elif opened.kind:
            raise refusal(opened.kind, path, opened.start)
        else:
            reader = LineReader(opened.stream, path, options.encoding)
            yield reader
            if options.encoding and (word := reader.word_in_utf8()):
                advice = f"if that is right, leave out --encoding {options.encoding}"
                note(f"{path}: the text reads as UTF-8 too, with words such as {excerpt(word)}; {advice}")


def read_documents(
    reader: LineReader | TableFile | DocumentFolder,
    options: CorpusOptions = NO_OPTIONS,
    usual: Columns | None = None,
    labelled: bool = True,
    note: Callable[[str], object] = ignore,
    with_texts: bool = True,
) -> Iterator[Document]:
    """Yield the documents of a corpus that `open_corpus` has opened; DataFormatError names a malformed line.

    Unless `with_texts`, the columns of texts may be missing. Unless `labelled`, documents need no labels, none are
    read, and a line may be a text alone. Labels that look as if they were separated otherwise, or a row each, are
    noted. If the reader keeps the errors of malformed lines, these are documents without text that have the error.
    """
    reading = Reading(reader.path, options.columns(usual), labelled, options.quotes, note, with_texts)
    if isinstance(reader, DocumentFolder):
        documents = reader.documents(labelled, reading.columns)
        if labelled:
            documents = split_labels(documents, reading, None)
        yield from FOLDER_DOUBT(documents, reading)
        return
    if isinstance(reader, TableFile):
        yield from _finished(documents_of_rows(reader.rows, reading), CSV, reader, options, reading)
        return
    first = reader.peek_line()
    if not first:
        return
    _check_encoding(first, reader)
    format = FORMATS[format_of_corpus(reader.path, first, options, usual)]
    if labelled and not format.has_labels:
        raise reading.error(1, _without_labels(first, reader.path))
    if not format.has_columns:
        # The separator of a model is that of its columns.
        reading = reading._replace(columns=reading.columns._replace(separator=options.separator))
    lines = decoded_lines(reader, advise=_advise)
    yield from _finished(format.read(lines, reading), format, reader, options, reading)


def _check_encoding(first: bytes, reader: LineReader) -> None:
    """Raise DataFormatError if the first line is UTF-16."""
    if first.startswith(UTF_16):
        raise DataFormatError(reader.path, 1, "the file is UTF-16, not UTF-8; --encoding utf-16 reads it")
    if not reader.encoding and first.count(0) > len(first) // 4:
        order = "le" if first[1::2].count(0) > first[::2].count(0) else "be"
        reason = f"the text has NUL bytes, as UTF-16 has; --encoding utf-16-{order} reads it"
        raise DataFormatError(reader.path, 1, reason)


def _without_labels(first: bytes, path: str) -> str:
    """Return what is wrong with a first line that tells a format without labels."""
    if is_rows(path, first, strict=True):
        return "these are rows of numbers, not text"
    return (
        f"the first line must be three nonnegative integers `N D K`, not {quote(first.rstrip())}, or that of a corpus "
        f"with labels: `text<TAB>label label ...`, a JSON object, {FASTTEXT_LABEL}, or a header with a column for the "
        "text"
    )


def _finished(
    documents: Iterator[Document | DataFormatError],
    format: Format,
    reader: LineReader | TableFile,
    options: CorpusOptions,
    reading: Reading,
) -> Iterator[Document]:
    """Return the documents of a format with their labels divided, rows merged and doubts noted."""
    finished = _or_errors(documents, reader.errors)
    if reading.labelled:
        finished = split_labels(finished, reading, format.separator)
    if options.merge_ids:
        finished = merge_rows(finished, reading)
    for doubt in format.doubts if options.format else (*format.refusals, *format.doubts):
        finished = doubt(finished, reading)
    return finished


def _or_errors(
    items: Iterator[Document | DataFormatError], errors: dict[int, DataFormatError] | None
) -> Iterator[Document]:
    """Yield documents; a malformed one has its error, or raises it if the reader keeps no `errors`."""
    for item in items:
        if errors is None and isinstance(item, DataFormatError):
            raise item
        if errors:
            # The lines of this document are not UTF-8.
            error = next(iter(errors.values()))
            error.id = item.id if isinstance(item.id, str | int) else None
            errors.clear()
            item = error
        yield Document(item.line, item.id, "", [], item) if isinstance(item, DataFormatError) else item


def _advise(lines: bytes, position: int) -> str:
    """Return advice on lines that are not UTF-8, the first one at a position."""
    if is_binary(lines[:GUESSED]):
        return "; this looks like binary data, not text"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return NO_GUESS
    sample = lines[:GUESSED][: lines.rfind(b"\n", position, GUESSED) + 1 or GUESSED]
    guess = from_bytes(sample, steps=1, chunk_size=GUESSED, threshold=0.5, cp_isolation=ENCODINGS).best()
    if guess is None:
        return NO_GUESS
    # The first one is the most usual, and often another one gives the same text.
    name = ENCODINGS[0] if ENCODINGS[0] in guess.could_be_from_charset else guess.encoding
    word = lines[max(lines.rfind(space, 0, position) for space in (b" ", b"\t", b",")) + 1 :].split(b"\n")[0]
    return f"; --encoding {name} reads it as {excerpt(word[:SHOWN].decode(name, 'ignore').strip())}"
