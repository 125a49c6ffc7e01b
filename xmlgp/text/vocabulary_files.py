"""The concepts in the file of a vocabulary: a table, or SKOS, which rdflib reads.

A table is Annif's TSV (`<URI><TAB>label`, perhaps a notation as a third field, with or without brackets), or has the
columns `uri`, `label` or `label_LANGUAGE`, and `notation`. A concept may have no label, as deprecated ones have none.
"""

from __future__ import annotations

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from xmlgp.data.dense_files import MOST_EXPANDED
from xmlgp.data.file_kinds import format_ending
from xmlgp.data.lines import BLOCK_BYTES, LineReader, decoded_lines
from xmlgp.data.names import CONTROL, describe_unfit
from xmlgp.data.streams import compression_of, file_size, open_input
from xmlgp.errors import DataFormatError, XmlgpError, raise_errors
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.delimited import header_fields, read_rows

if TYPE_CHECKING:
    from io import BufferedReader

    import rdflib

__all__ = ["Concept", "language_tag", "read_concepts", "uri_of"]

#: Formats of rdflib by the endings of names. JSON-LD is not among them: reading it may load a context from elsewhere.
SKOS = {".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".nt": "nt"}

#: The declaration of an entity that refers to another, of which a few can stand for gigabytes, or to a file.
REFERRING = re.compile(rb"<!ENTITY(?:[^>]*&|\s+(?:%\s+)?\S+\s+(?:SYSTEM|PUBLIC)\s)")

#: A URI in brackets, or without them.
URI = re.compile(r"<([^<>]+)>|([A-Za-z][A-Za-z0-9+.-]*:[^\s<>]+)", re.DOTALL)

#: A column of preferred labels, as in Annif's CSV or as tools for SKOS write it, and its language.
LABEL_COLUMN = re.compile(
    r"(?:skos:)?(?:pref)?label(?:[_@:. -]([A-Za-z]{1,8}(?:[-_][A-Za-z0-9]{1,8})*))?", re.IGNORECASE
)

#: What is wrong with files that begin in these ways.
OTHER_FORMATS = {
    re.compile(r"@(prefix|base)\b|(?i:prefix)\s+\S*:"): "SKOS in Turtle is read from a file named .ttl",
    re.compile(r"<\?xml|<rdf:RDF|<!DOCTYPE"): "SKOS in XML is read from a file named .rdf",
    re.compile(r"<\S+>\s+<\S+>\s+\S.*\.\s*$"): "SKOS in N-Triples is read from a file named .nt",
    re.compile(
        r"[{\[]"
    ): "this is JSON; if it is JSON-LD, `rdfpipe -i json-ld -o turtle FILE` of rdflib makes a .ttl of it",
}

#: The columns that a table needs, in messages.
COLUMNS = "the columns uri and label or label_LANGUAGE"

#: Bytes that a compressed vocabulary may have however small it is: a million concepts. Beyond, it may expand
#: `MOST_EXPANDED` times; SKOS expands 10 to 30 times.
FREE_BYTES = 1 << 26


class Concept(NamedTuple):
    """A URI, preferred labels after their languages ("" for none), and notations; hashable."""

    uri: str
    labels: tuple[tuple[str, str], ...]
    notations: tuple[str, ...]


class _Bounded:
    """Reads a stream; XmlgpError if it is compressed and expands too much."""

    def __init__(self, stream: BufferedReader, path: str) -> None:
        self._stream = stream
        self._path = path
        self._left = max(FREE_BYTES, MOST_EXPANDED * (file_size(stream) or 0)) if compression_of(stream) else math.inf

    def fileno(self) -> int:
        """Return the file descriptor of the stream."""
        return self._stream.fileno()

    def read1(self, size: int) -> bytes:
        """Return the available bytes, at most `size`; none at the end."""
        piece = self._stream.read1(size)
        self._left -= len(piece)
        if self._left < 0:
            limit = f"{FREE_BYTES >> 20} MiB and {MOST_EXPANDED} times its size"
            raise XmlgpError(f"{self._path}: it expands to more than {limit}; save it without compression")
        return piece


def read_concepts(path: str) -> list[Concept]:
    """Return the concepts of a file. DataFormatError names a malformed line; XmlgpError for malformed SKOS."""
    format = SKOS.get(format_ending(path))
    with open_input(path) as stream:
        bounded = _Bounded(stream, path)
        if format:
            return _read_skos(b"".join(iter(lambda: bounded.read1(BLOCK_BYTES), b"")), path, format)
        concepts: dict[Concept, None] = {}
        for concept in _read_rows(decoded_lines(LineReader(bounded, path)), path):
            # Of equal concepts only the last one takes memory.
            concepts.pop(concept, None)
            concepts[concept] = None
    return list(concepts)


def uri_of(text: str) -> str | None:
    """Return the URI that a text is, perhaps in brackets, or None."""
    match = URI.fullmatch(text.strip())
    return match and (match[1] or match[2])


def language_tag(language: str) -> str:
    """Return a tag of a language as RFC 5646 writes it, such as en-US; case does not matter in tags."""
    first, *subtags = language.strip().replace("_", "-").split("-")
    cases = {2: str.upper, 4: str.title}
    return "-".join([first.lower(), *(cases.get(len(subtag), str.lower)(subtag) for subtag in subtags)])


def _plain(text: str) -> str:
    """Return text in a line, without control characters, as the name of a label."""
    return normalized_name(" ".join(CONTROL.sub(" ", text).split()))


def _checked_uri(uri: str, path: str, number: int) -> str:
    """Return the URI in a line as the name of a label; DataFormatError if it has what no name can have."""
    unfit = describe_unfit(uri)
    if unfit:
        raise DataFormatError(path, number, f"the URI {excerpt(uri)} {unfit}")
    return normalized_name(uri)


def _read_rows(lines: Iterator[tuple[int, str]], path: str) -> Iterator[Concept]:
    """Return the concepts of a table with a header, or of Annif's TSV, as the first line that is not blank says."""
    number, first = next(((number, line) for number, line in lines if line and not line.isspace()), (1, ""))
    for start, reason in OTHER_FORMATS.items():
        if start.match(first.lstrip()):
            raise DataFormatError(path, number, reason)
    lines = chain([(number, first)], lines)
    delimiter = next((mark for mark in ",\t;" if _header(header_fields(first, mark))), None)
    if delimiter:
        return _read_table(lines, path, delimiter)
    if format_ending(path) == ".csv":
        names = ", ".join(map(excerpt, header_fields(first, ","))) or "none"
        raise DataFormatError(path, number, f"a vocabulary needs {COLUMNS}, not {names}")
    return _read_tsv(lines, path)


def _read_tsv(lines: Iterable[tuple[int, str]], path: str) -> Iterator[Concept]:
    for number, line in lines:
        if not line or line.isspace():
            continue
        first, *fields = line.split("\t")
        uri = uri_of(first)
        if uri is None:
            form = "`<URI><TAB>label`, unless the first line is a header with uri and label"
            raise DataFormatError(path, number, f"the line must be {form}, not {excerpt(line)}")
        label, *notations = map(_plain, fields or [""])
        labels = (("", label),) if label else ()
        yield Concept(_checked_uri(uri, path, number), labels, tuple(filter(None, notations)))


class _Header(NamedTuple):
    """The positions of the columns of a table, with the languages of the columns of labels."""

    uri: int
    labels: dict[int, str]
    notations: list[int]


def _header(names: list[str]) -> _Header | None:
    """Return the columns of a table; None if it has no URIs."""
    names = [name.strip() for name in names]
    kinds = list(map(str.lower, names))
    if "uri" not in kinds:
        return None
    matches = {position: LABEL_COLUMN.fullmatch(name) for position, name in enumerate(names)}
    labels = {position: language_tag(match[1] or "") for position, match in matches.items() if match}
    return _Header(kinds.index("uri"), labels, [position for position, kind in enumerate(kinds) if kind == "notation"])


def _read_table(lines: Iterator[tuple[int, str]], path: str, delimiter: str) -> Iterator[Concept]:
    rows: Iterator[tuple[int, list[str]]]
    if delimiter == "\t":
        # Quotes count where they are closed within the line: programs write them without a meaning, too.
        rows = ((number, header_fields(line, delimiter) or line.split(delimiter)) for number, line in lines)
    else:
        rows = raise_errors(read_rows(lines, path, delimiter))
    rows = ((number, row) for number, row in rows if "".join(row).strip())
    number, names = next(rows)
    header = _header(names)
    if header is None or not header.labels:
        raise DataFormatError(path, number, f"a vocabulary needs {COLUMNS}, not {', '.join(map(excerpt, names))}")
    for number, row in rows:
        if len(row) != len(names):
            reason = f"this row has {counted(len(row), 'field')}, but the header has {len(names)}"
            raise DataFormatError(path, number, reason)
        cells = list(map(_plain, row))
        labels = [(language, cells[column]) for column, language in header.labels.items() if cells[column]]
        notations = filter(None, (cells[column] for column in header.notations))
        uri = row[header.uri].strip().strip("<>")
        yield Concept(_checked_uri(uri, path, number), tuple(labels), tuple(notations))


def _read_skos(content: bytes, path: str, format: str) -> list[Concept]:
    try:
        import rdflib
    except ImportError:
        raise XmlgpError(f"{path}: SKOS needs rdflib: pip install 'xmlgp[text]'") from None
    # It logs each URI with a space.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    if format == "xml" and REFERRING.search(content):
        raise XmlgpError(f"{path}: this XML has entities that refer to others or to files, which are refused as unsafe")
    labels: defaultdict[str, dict[str, str]] = defaultdict(dict)
    notations: defaultdict[str, dict[str, None]] = defaultdict(dict)
    try:
        _graph(rdflib, labels, notations).parse(data=content, format=format)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its parsers raise exceptions of many kinds
        # Without the name that rdflib gives the stream, and the text around the mistake.
        reason = re.sub(r" of <>|file:\S*?(?=:\d)| at \^ in:.*", "", _plain(str(error)))
        raise XmlgpError(f"{path}: this is not SKOS in {format}: {excerpt(reason)}") from None
    for uri, texts in labels.items():
        for kind, text in ("URI", uri), *(("preferred label", label) for label in texts.values()):
            unfit = describe_unfit(text)
            if unfit:
                raise XmlgpError(f"{path}: the {kind} {excerpt(text)} {unfit}")
    return [Concept(normalized_name(uri), tuple(labels[uri].items()), tuple(notations[uri])) for uri in sorted(labels)]


def _graph(
    library: ModuleType, labels: dict[str, dict[str, str]], notations: dict[str, dict[str, None]]
) -> rdflib.Graph:
    """Return a graph that puts the preferred labels and the notations that a parser adds into dictionaries, by URIs.

    It keeps nothing else: other triples may be most of them.
    """
    label_of = library.namespace.SKOS.prefLabel
    notation_of = library.namespace.SKOS.notation

    class Concepts(library.Graph):  # type: ignore[misc, name-defined]  # rdflib is imported when it is needed
        """Looks at triples in place of keeping them."""

        def add(self, triple: tuple[rdflib.term.Node, rdflib.term.Node, rdflib.term.Node]) -> Concepts:
            subject, predicate, value = triple
            text = _plain(str(value)) if predicate in (label_of, notation_of) else ""
            # A blank node has another name each time.
            if not (text and isinstance(subject, library.URIRef)):
                return self
            if predicate == notation_of:
                notations[str(subject)][text] = None
                return self
            texts = labels[str(subject)]
            language = language_tag(getattr(value, "language", None) or "")
            # Two labels of a language are a mistake in the vocabulary; their order must not decide which one is shown.
            texts[language] = min(text, texts.get(language, text))
            return self

    return Concepts()
