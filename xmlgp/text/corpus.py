"""Open and read corpora: a file of any of the formats, or a folder of documents."""

import codecs
import contextlib
import os

from xmlgp.data.file_kinds import ARFF, is_binary, refusal
from xmlgp.data.formats import is_rows
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.streams import open_any
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt, quote
from xmlgp.text.arff import open_arff
from xmlgp.text.delimited import documents_of_rows, header_fields
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import NO_OPTIONS, Document, Reading
from xmlgp.text.doubts import note_odd, note_repeated, note_unlikely
from xmlgp.text.formats import FORMATS, format_of_corpus, has_corpus_ending
from xmlgp.text.headerless import FASTTEXT_LABEL
from xmlgp.text.label_rows import merge_rows, split_labels
from xmlgp.text.table_files import LIBRARIES, TableFile, open_table, text_rows

__all__ = ["is_corpus", "open_corpus", "read_documents"]

#: The first bytes of text in UTF-16.
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

#: Usual encodings besides UTF-8. Others are so similar to these that a few lines do not tell them apart.
ENCODINGS = ["cp1252", "cp1251", "cp1253", "cp932", "gb18030", "big5", "euc_kr"]

#: Bytes from which the encoding is guessed, and bytes that are shown as they would be read.
GUESSED = 4096
SHOWN = 30


def is_corpus(path, line, strict=True):
    """Return whether a file is a corpus, not rows of numbers (`is_rows`), by its name and its first line (bytes)."""
    return has_corpus_ending(path) or not is_rows(path, line, strict)


@contextlib.contextmanager
def open_corpus(path, options=NO_OPTIONS, note=ignore):
    """Open a corpus; yield the `LineReader` of a file or of `-`, a `TableFile`, or the `DocumentFolder` of a folder."""
    if os.path.isdir(path):
        yield DocumentFolder(path, options.encoding, note)
        return
    with open_any(path) as opened:
        if opened.kind in LIBRARIES:
            with open_table(opened, path, note) as table:
                yield table
        elif opened.kind is ARFF:
            with open_arff(opened, path, options.encoding) as found:
                yield found
        elif opened.kind:
            raise refusal(opened.kind, path, opened.start)
        else:
            reader = LineReader(opened.stream, path, options.encoding)
            yield reader
            if options.encoding and (word := reader.stream.as_utf8()):
                advice = f"if that is right, leave out --encoding {options.encoding}"
                note(f"{path}: the text reads as UTF-8 too, with words such as {excerpt(word)}; {advice}")


def read_documents(reader, options=NO_OPTIONS, usual=None, labelled=True, note=ignore, with_texts=True):
    """Yield the documents of a corpus that `open_corpus` has opened; DataFormatError names a malformed line.

    Unless `with_texts`, the columns of texts may be missing. Unless `labelled`, documents need no labels, none are
    read, and a line may be a text alone. Labels that look as if they were separated otherwise, or a row each, are
    noted. If the reader keeps the errors of malformed lines, these are documents without text whose identifier is the
    error.
    """
    if isinstance(reader, DocumentFolder):
        reading = Reading(reader.path, options.columns(usual), labelled, options.quotes, note, with_texts)
        documents = reader.documents(labelled, reading.columns)
        if labelled:
            documents = note_unlikely(split_labels(documents, reading, None), reading, advice="")
        yield from note_odd(documents, reading)
        return
    reading = Reading(reader.path, options.columns(usual), labelled, options.quotes, note, with_texts)
    if isinstance(reader, TableFile):
        documents = documents_of_rows(text_rows(reader), reading)
        yield from _finished(documents, FORMATS["csv"], reader, options, reading)
        return
    first = reader.peek_line()
    if not first:
        return
    if first.startswith(UTF_16):
        raise DataFormatError(reader.path, 1, "the file is UTF-16, not UTF-8; --encoding utf-16 reads it")
    if not reader.encoding and first.count(0) > len(first) // 4:
        order = "le" if first[1::2].count(0) > first[::2].count(0) else "be"
        raise DataFormatError(
            reader.path, 1, f"the text has NUL bytes, as UTF-16 has; --encoding utf-16-{order} reads it"
        )
    name = format_of_corpus(reader.path, first, options, usual)
    if labelled and name == "lines":
        reason = (
            f"the first line must be three nonnegative integers `N D K`, not {quote(first.rstrip())}, or that of a "
            f"corpus with labels: `text<TAB>label label ...`, a JSON object, {FASTTEXT_LABEL}, or a header with a "
            "column for the text"
        )
        if is_rows(reader.path, first, strict=True):
            reason = "these are rows of numbers, not text" + "; an encoder needs the text" * bool(options.encoder)
        raise DataFormatError(reader.path, 1, reason)
    chosen = FORMATS[name]
    if not chosen.has_columns:
        # The separator of a model is that of its columns.
        reading = reading._replace(columns=reading.columns._replace(separator=options.separator))
    width = len(reading.columns.header)
    if name == "lines" and width > 1 and len(header_fields(first.decode(errors="replace"), ",")) == width:
        note(f"{reader.path}: each line is a text; --corpus-format csv reads the columns of the model, at commas")
    documents = chosen.read(decoded_lines(reader, advise=_advise), reading)
    yield from _finished(documents, chosen, reader, options, reading)


def _finished(documents, chosen, reader, options, reading):
    """Return documents or errors of a format as `read_documents` yields them."""
    documents = _or_errors(documents, reader.errors)
    if reading.labelled:
        documents = split_labels(documents, reading, chosen.separator)
    doubts = chosen.doubts if options.format else (*chosen.refusals, *chosen.doubts)
    for doubt in doubts:
        # Rows that are merged are meant to have the same identifier.
        if not (options.merge_ids and doubt is note_repeated):
            documents = doubt(documents, reading)
    return merge_rows(documents, reader.path) if options.merge_ids else documents


def _or_errors(found, errors):
    """Yield documents, also those whose identifier is an error; raise it if there are no `errors` of lines (dict)."""
    for document in found:
        if errors is None and isinstance(document, DataFormatError):
            raise document
        if errors:
            # The lines of this document are not UTF-8.
            own = document.id
            document = next(iter(errors.values()))
            document.id = own
            errors.clear()
        if isinstance(document, DataFormatError):
            document = Document(document.line, document, "", [])
        yield document


def _advise(lines, place):
    """Return how to go on with lines (bytes) that are not UTF-8 at a place of the first one."""
    if is_binary(lines[:GUESSED]):
        return "; this looks like binary data, not text"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        guess = None
    else:
        sample = lines[:GUESSED][: lines.rfind(b"\n", place, GUESSED) + 1 or GUESSED]
        guess = from_bytes(sample, steps=1, chunk_size=GUESSED, threshold=0.5, cp_isolation=ENCODINGS).best()
    if guess is None:
        return "; --encoding names its encoding, such as cp1252"
    # The first one is the most usual, and often another one gives the same text.
    name = ENCODINGS[0] if ENCODINGS[0] in guess.could_be_from_charset else guess.encoding
    word = lines[max(lines.rfind(space, 0, place) for space in (b" ", b"\t", b",")) + 1 :].split(b"\n")[0]
    return f"; --encoding {name} reads it as {excerpt(word[:SHOWN].decode(name, 'ignore').strip())}"
