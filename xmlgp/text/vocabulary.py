"""Vocabularies: the URI, the preferred labels and the notations of concepts, by which the labels of a model are named.

A file is Annif's TSV (`<URI><TAB>label`, perhaps a notation as a third field, with or without brackets), a table with
the columns `uri`, `label` or `label_LANGUAGE`, and `notation`, or SKOS, read by rdflib. A concept may have no label, as
deprecated ones have none.
"""

import logging
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from xmlgp.data.dense_files import MOST_EXPANDED
from xmlgp.data.file_kinds import format_ending
from xmlgp.data.lines import BLOCK_BYTES, LineReader, decoded_lines
from xmlgp.data.names import CONTROL, describe_unfit
from xmlgp.data.streams import compression_of, open_input
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.delimited import header_fields, read_rows

__all__ = ["Vocabulary", "name_labels", "read_vocabulary"]

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

    def __init__(self, stream, path: str) -> None:
        self._stream = stream
        self._path = path
        self._left = None
        if compression_of(stream):
            self._left = max(FREE_BYTES, MOST_EXPANDED * _file_size(stream))

    def read1(self, size: int) -> bytes:
        """Return the available bytes, at most `size`; none at the end."""
        piece = self._stream.read1(size)
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0:
                raise XmlgpError(
                    f"{self._path}: it expands to more than {FREE_BYTES >> 20} MiB and {MOST_EXPANDED} times its size; "
                    "save it without compression"
                )
        return piece

    def read(self) -> bytes:
        """Return all bytes."""
        return b"".join(iter(lambda: self.read1(BLOCK_BYTES), b""))


def _file_size(stream) -> int:
    """Return the size of the file that a stream reads, 0 if it is none."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # standard input of a test or a notebook
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


class Vocabulary(NamedTuple):
    """The URI and the preferred label of each concept by all its names, and the languages, the chosen one first.

    The names are its URI, its labels and its notations, apart from those that several concepts share.
    """

    path: str
    concepts: dict[str, tuple[str, str]]
    languages: list[str]


def read_vocabulary(path, language=None):
    """Return the `Vocabulary` of a file, with labels in a language, by default English or the one of most labels.

    A concept without a label in it has one of another language. DataFormatError names a malformed line; SettingsError
    if there are no labels in the language; XmlgpError for SKOS if it is malformed, or rdflib is not installed.
    """
    path = os.fspath(path)
    ending = format_ending(path)
    with open_input(path) as stream:
        stream = _Bounded(stream, path)
        if ending in SKOS:
            concepts = _read_skos(stream, path, SKOS[ending])
        else:
            lines = decoded_lines(LineReader(stream, path))
            concepts = _distinct(_read_rows(lines, path))
    counts = Counter(found for concept in concepts for found, _ in concept.labels)
    if not counts:
        raise XmlgpError(f"{path}: there are no concepts with preferred labels")
    wanted = _language_tag("en" if language is None else language)
    languages = sorted(counts, key=lambda found: (_preference(found, wanted), -counts[found], found))
    if language is not None and not _preference(languages[0], wanted):
        raise SettingsError(f"{path}: there are no labels in {excerpt(language)}, only in {_in_words(languages)}")
    found = {}
    for names_of in (
        lambda concept: [concept.uri],
        lambda concept: [label for own, label in concept.labels if own == languages[0]],
        lambda concept: [label for _, label in concept.labels],
        lambda concept: concept.notations,
    ):
        owners = {}
        for concept in concepts:
            for name in names_of(concept):
                before = owners.get(name, concept)
                owners[name] = concept if before and before.uri == concept.uri else None
        for name, owner in owners.items():
            found.setdefault(name, owner)
    chosen = {}
    for name, concept in found.items():
        if concept and concept.labels:
            labels = dict(concept.labels)
            chosen[name] = (concept.uri, next(labels[own] for own in languages if own in labels))
    return Vocabulary(path, chosen, languages)


def name_labels(names, vocabulary=None, note=ignore, earlier=None):
    """Return `Names` whose labels have URIs and preferred labels: those of a `Vocabulary`, or those they had before.

    `earlier` are the names before, by default the same; they have the first labels. A label that neither knows keeps
    its own name, which is also its URI if it looks like one.
    """
    earlier = earlier or names
    if vocabulary is None and earlier.preferred is None:
        return names
    if names.labels is None and vocabulary is None:
        return names._replace(uris=None, preferred=None)
    if names.labels is None:
        raise SettingsError(f"{vocabulary.path}: the labels have no names by which they could be in a vocabulary")
    concepts = vocabulary.concepts if vocabulary else {}
    known = {}
    if earlier.preferred:
        known = dict(zip(earlier.labels, zip(earlier.uris, earlier.preferred, strict=True), strict=True))
    found = [
        concepts.get(normalized_name(label)) or known.get(label) or (label if "://" in label else "", label)
        for label in names.labels
    ]
    if vocabulary:
        named = sum(normalized_name(label) in concepts for label in names.labels)
        language, *others = vocabulary.languages
        text = f", in {_in_words([language])}" if language or others else ""
        text += f" (there is also {_in_words(others)})" if others else ""
        count = f"{named} of {len(found)} label{'s' * (len(found) != 1)}"
        note(f"{vocabulary.path}: {'' if named else 'warning: '}preferred labels of {count}{text}")
    uris, preferred = map(list, zip(*found, strict=True))
    return names._replace(uris=uris, preferred=preferred)


def _in_words(languages):
    return ", ".join(map(excerpt, filter(None, languages))) + " and no language" * ("" in languages)


def _plain(text):
    """Return text in a line, without control characters, as the name of a label."""
    return normalized_name(" ".join(CONTROL.sub(" ", text).split()))


def _language_tag(language: str) -> str:
    """Return a tag of a language as RFC 5646 writes it, such as en-US; case does not matter in tags."""
    first, *others = language.strip().replace("_", "-").split("-")
    return "-".join([first.lower(), *({2: str.upper, 4: str.title}.get(len(part), str.lower)(part) for part in others)])


def _preference(language: str, wanted: str) -> int:
    """Return the rank of a language where one is wanted: it, its regional variants, what it is one of; 0 for others.

    The lower the better; a rank that is not 0 is negative.
    """
    if language == wanted:
        return -3
    if language.startswith(f"{wanted}-"):
        return -2
    return -1 if language and wanted.startswith(f"{language}-") else 0


def _distinct(concepts: Iterable[Concept]) -> list[Concept]:
    """Return concepts without those that are equal to a later one."""
    distinct = {}
    for concept in concepts:
        distinct.pop(concept, None)
        distinct[concept] = None
    return list(distinct)


def _checked_uri(uri: str, path: str, number: int) -> str:
    """Return the URI in a line as the name of a label; DataFormatError if it has what no name can have."""
    unfit = describe_unfit(uri)
    if unfit:
        raise DataFormatError(path, number, f"the URI {excerpt(uri)} {unfit}")
    return normalized_name(uri)


def _read_rows(lines: Iterable[tuple[int, str]], path: str) -> Iterator[Concept]:
    """Yield the concepts of a table with a header, or of Annif's TSV, as the first line that is not blank says."""
    lines = iter(lines)
    number, first = next(((number, line) for number, line in lines if line and not line.isspace()), (1, ""))
    for start, reason in OTHER_FORMATS.items():
        if start.match(first.lstrip()):
            raise DataFormatError(path, number, reason)
    lines = chain([(number, first)], lines)
    headers = {delimiter: header_fields(first, delimiter) for delimiter in ",\t;"}
    delimiter = next((delimiter for delimiter in headers if "uri" in _columns(headers[delimiter]).values()), None)
    if delimiter:
        yield from _read_table(lines, path, delimiter)
    elif format_ending(path) == ".csv":
        found = ", ".join(map(excerpt, headers[","])) or "none"
        raise DataFormatError(path, number, f"a vocabulary needs {COLUMNS}, not {found}")
    else:
        yield from _read_tsv(lines, path)


def _read_tsv(lines: Iterable[tuple[int, str]], path: str) -> Iterator[Concept]:
    for number, line in lines:
        if not line or line.isspace():
            continue
        uri, *fields = line.split("\t")
        found = URI.fullmatch(uri.strip())
        if not found:
            expected = "`<URI><TAB>label`, unless the first line is a header with uri and label"
            raise DataFormatError(path, number, f"the line must be {expected}, not {excerpt(line)}")
        label, *notations = map(_plain, fields or [""])
        uri = _checked_uri(found[1] or found[2], path, number)
        yield Concept(uri, (("", label),) if label else (), tuple(filter(None, notations)))


def _columns(header: list[str]) -> dict[int, str]:
    """Return "uri", "notation" or "label LANGUAGE" for the places of columns that have these."""
    found = {}
    for place, name in enumerate(header):
        name = name.strip()
        label = LABEL_COLUMN.fullmatch(name)
        if label:
            found[place] = f"label {_language_tag(label[1] or '')}"
        elif name.lower() in ("uri", "notation"):
            found[place] = name.lower()
    return found


def _read_table(lines: Iterable[tuple[int, str]], path: str, delimiter: str) -> Iterator[Concept]:
    if delimiter == "\t":
        # Quotes count where they are closed within the line: programs write them without a meaning, too.
        rows = ((number, header_fields(line, delimiter) or line.split(delimiter)) for number, line in lines)
    else:
        rows = read_rows(lines, path, delimiter)
    rows = ((line, row) for line, row in rows if "".join(row).strip())
    line, header = next(rows)
    columns = _columns(header)
    if not any(kind.startswith("label ") for kind in columns.values()):
        raise DataFormatError(path, line, f"a vocabulary needs {COLUMNS}, not {', '.join(map(excerpt, header))}")
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataFormatError(path, number, f"this row has {len(fields)} fields, but the header has {len(header)}")
        cells = [(kind, _plain(fields[place])) for place, kind in columns.items()]
        uri = next(fields[place] for place, kind in columns.items() if kind == "uri").strip().strip("<>")
        labels = [(kind.removeprefix("label "), cell) for kind, cell in cells if kind.startswith("label ") and cell]
        notations = [cell for kind, cell in cells if kind == "notation" and cell]
        yield Concept(_checked_uri(uri, path, number), tuple(labels), tuple(notations))


def _read_skos(stream, path, name):
    try:
        import rdflib
    except ImportError:
        raise XmlgpError(f"{path}: SKOS needs rdflib: pip install 'xmlgp[text]'") from None
    # It logs each URI with a space.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    content = stream.read()
    if name == "xml" and REFERRING.search(content):
        raise XmlgpError(f"{path}: this XML has entities that refer to others or to files, which are refused as unsafe")
    label_of = rdflib.namespace.SKOS.prefLabel
    notation_of = rdflib.namespace.SKOS.notation
    labels = {}
    notations = {}

    class Concepts(rdflib.Graph):
        """Keeps preferred labels and notations of the triples that a parser adds: others may be most of them."""

        def add(self, triple):
            subject, predicate, value = triple
            text = _plain(str(value)) if predicate in (label_of, notation_of) else ""
            # A blank node has another name each time.
            if not (text and isinstance(subject, rdflib.URIRef)):
                return self
            if predicate == notation_of:
                notations.setdefault(str(subject), {})[text] = None
                return self
            own = labels.setdefault(str(subject), {})
            language = _language_tag(getattr(value, "language", None) or "")
            # Two labels of a language are a mistake in the vocabulary; their order must not decide which one is shown.
            own[language] = min(text, own.get(language, text))
            return self

    try:
        Concepts().parse(data=content, format=name)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its parsers raise exceptions of many kinds
        # Without the name that rdflib gives the stream, and the text around the mistake.
        reason = re.sub(r" of <>|file:\S*?(?=:\d)| at \^ in:.*", "", _plain(str(error)))
        raise XmlgpError(f"{path}: this is not SKOS in {name}: {excerpt(reason)}") from None
    for uri, own in labels.items():
        for kind, text in ("URI", uri), *(("preferred label", label) for label in own.values()):
            unfit = describe_unfit(text)
            if unfit:
                raise XmlgpError(f"{path}: the {kind} {excerpt(text)} {unfit}")
    return [
        Concept(normalized_name(uri), tuple(labels[uri].items()), tuple(notations.get(uri, ())))
        for uri in sorted(labels)
    ]
