"""Read corpora of any format, which the first line and the ending of the name tell apart.

The reader of a format is a generator from the numbered lines of a file, its path for messages, the `Columns`, and
whether documents must have labels. It yields a `Document`, or the DataFormatError of one that it can go on after.
"""

import codecs
import contextlib
import os
import re

from xmlgp.data.file_kinds import ARFF, format_ending, is_binary, refusal
from xmlgp.data.libsvm_format import is_libsvm
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.repository_format import HEADER
from xmlgp.data.streams import open_any
from xmlgp.errors import DataFormatError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt, quote
from xmlgp.text.arff import open_arff
from xmlgp.text.delimited import header_fields, read_csv, read_table, read_tsv
from xmlgp.text.document_folder import DocumentFolder
from xmlgp.text.documents import NO_OPTIONS, Columns, Document
from xmlgp.text.json_lines import read_json_lines
from xmlgp.text.label_rows import merge_rows, note_repeated, split_labels
from xmlgp.text.table_files import LIBRARIES, TableFile, open_table

__all__ = ["FORMATS", "corpus_format", "has_corpus_ending", "is_corpus", "open_corpus", "read_documents"]


#: The first bytes of text in UTF-16.
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

#: Formats that the ending of a name tells; of the others it tells nothing.
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}

#: Usual encodings besides UTF-8. Others are so similar to these that a few lines do not tell them apart.
ENCODINGS = ["cp1252", "cp1251", "cp1253", "cp932", "gb18030", "big5", "euc_kr"]

#: Bytes from which the encoding is guessed, and bytes that are shown as they would be read.
GUESSED, SHOWN = 4096, 30

#: The prefix of labels in fastText's format.
FASTTEXT_LABEL = "__label__"

#: The start of an object, or of an array of objects.
JSON_START = re.compile(r"\s*(\{|\[\s*(\{|\]?\s*\Z))")

#: The first field of a line in PECOS's format.
PECOS_LABELS = re.compile(r"[0-9]+(,[0-9]+)*")


def has_corpus_ending(path):
    """Return whether a name alone says that a file is a corpus."""
    return format_ending(path) in ENDINGS


def is_corpus(path, line):
    """Return whether a file is a corpus, not rows of numbers, by its name and its first line (bytes)."""
    return has_corpus_ending(path) or not (HEADER.fullmatch(line) or is_libsvm(line))


def corpus_format(path, line, options=NO_OPTIONS, usual=None):
    """Return the name of the format of a corpus, one of `FORMATS`, by its name and its first line (bytes).

    The usual columns (`Columns`), those of a model, do not tell that there is a header.
    """
    if options.format:
        return options.format
    if format_ending(path) in ENDINGS:
        return ENDINGS[format_ending(path)]
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    if JSON_START.match(text):
        return "jsonl"
    columns = options.columns(usual)
    for name, delimiter in ("tsv", "\t"), ("csv", ","), ("csv", ";"):
        fields = header_fields(text, delimiter)
        if set(columns.text) <= set(fields) and (len(fields) > 1 or columns != Columns()):
            return name
    if any(options) and columns != Columns():
        return "tsv" if "\t" in text else "csv"
    if any(word.startswith(FASTTEXT_LABEL) for word in text.split()):
        return "fasttext"
    first, *others = text.split("\t")
    if not others:
        return "lines"
    # A document of PECOS may have no labels, and one of Annif's has some text.
    if not first or PECOS_LABELS.fullmatch(first):
        return "pecos"
    # More tabs are those of a table, unless they are between labels in brackets.
    return "annif" if len(others) == 1 or all(other.startswith("<") for other in others) else "tsv"


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


def read_documents(reader, options=NO_OPTIONS, usual=None, labelled=True, note=ignore):
    """Yield the documents of a corpus that `open_corpus` has opened; DataFormatError names a malformed line.

    Unless `labelled`, documents need no labels, none are read, and a line may be a text alone. Labels that look as if
    they were separated otherwise, or a row each, are noted. If the reader keeps the errors of malformed lines, these
    are documents without text whose identifier is the error.
    """
    if isinstance(reader, DocumentFolder):
        yield from reader.documents(labelled)
        return
    path, columns = reader.path, options.columns(usual)
    if isinstance(reader, TableFile):
        documents = read_table(reader.rows(), path, columns, labelled)
        yield from _finished(documents, reader, options, columns, labelled, ";", note)
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
    name = corpus_format(reader.path, first, options, usual)
    if labelled and name == "lines":
        reason = (
            f"the first line must be three nonnegative integers `N D K`, not {quote(first.rstrip())}, or that of a "
            f"corpus with labels: `text<TAB>label label ...`, a JSON object, {FASTTEXT_LABEL}, or a header with a "
            "column for the text"
        )
        rows = HEADER.fullmatch(first) or is_libsvm(first)
        if rows:
            reason = "these are rows of numbers, not text" + "; an encoder needs the text" * bool(options.encoder)
        raise DataFormatError(reader.path, 1, reason)
    documents = FORMATS[name](decoded_lines(reader, advise=_advise), path, columns, labelled)
    separator = ";" if name in ("csv", "tsv") else None
    yield from _finished(documents, reader, options, columns, labelled, separator, note)


def _finished(documents, reader, options, columns, labelled, separator, note):
    """Return documents or errors as `read_documents` yields them; `separator` is the usual one of labels."""
    documents = _or_errors(documents, reader.errors)
    if labelled:
        documents = split_labels(documents, reader.path, columns, separator, note)
    if options.merge_ids:
        return merge_rows(documents, reader.path)
    return note_repeated(documents, reader.path, note) if labelled else documents


def _or_errors(found, errors):
    """Yield documents, also those whose identifier is an error; raise it if there are no `errors` of lines (dict)."""
    for document in found:
        if errors is None and isinstance(document, DataFormatError):
            raise document
        if errors:
            # The lines of this document are not UTF-8.
            own, document = document.id, next(iter(errors.values()))
            document.id = own
            errors.clear()
        if isinstance(document, DataFormatError):
            document = Document(document.line, document, "", [])
        yield document


def read_plain(lines, path, columns, labelled):
    """Yield documents, each line the text of one."""
    for number, line in lines:
        yield Document(number, None, line, [])


def read_annif(lines, path, columns, labelled):
    """Yield documents `text<TAB>label label ...`; a label may be in angle brackets."""
    for number, text, tab, labels in _tabbed(lines):
        if labelled and not tab:
            raise DataFormatError(path, number, "there is no tab between a text and its labels")
        names = labels.split() if labelled else []
        if "<" in labels:
            names = [name[1:-1] if name[0] == "<" and name[-1] == ">" else name for name in names]
        yield Document(number, None, text, names)


def _tabbed(lines):
    """Yield the numbers of lines that are not blank, and what is before the first tab, the tab, and what follows."""
    return ((number, *line.partition("\t")) for number, line in lines if "\t" in line or line.strip())


def read_fasttext(lines, path, columns, labelled):
    """Yield documents `__label__a __label__b text`."""
    for number, line in lines:
        words = line.split()
        if words:
            labels = [word.removeprefix(FASTTEXT_LABEL) for word in words if word.startswith(FASTTEXT_LABEL)]
            text = " ".join(word for word in words if not word.startswith(FASTTEXT_LABEL))
            yield Document(number, None, text, labels)


def read_pecos(lines, path, columns, labelled):
    """Yield documents `label,label,...<TAB>text`, whose labels are numbers."""
    for number, labels, tab, text in _tabbed(lines):
        if not tab:
            yield DataFormatError(path, number, "there is no tab between the numbers of labels and the text")
        elif labels and not PECOS_LABELS.fullmatch(labels):
            reason = "the labels before the tab must be nonnegative integers, separated by commas"
            yield DataFormatError(path, number, reason)
        else:
            yield Document(number, None, text, labels.split(",") if labels else [])


#: The reader of each format by its name.
FORMATS = {
    "annif": read_annif,
    "csv": read_csv,
    "tsv": read_tsv,
    "jsonl": read_json_lines,
    "fasttext": read_fasttext,
    "pecos": read_pecos,
    "lines": read_plain,
}


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
