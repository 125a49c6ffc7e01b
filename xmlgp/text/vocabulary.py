"""Vocabularies: URIs, preferred labels and notations of concepts, by which the labels of a model are named.

A file is Annif's TSV (`<URI><TAB>label`, with or without brackets), or SKOS, which rdflib reads. A concept may have no
label, as deprecated ones have none.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from xmlgp.data.files import format_ending, open_input
from xmlgp.data.lines import ByteStream, LineReader, decoded_lines
from xmlgp.data.names import describe_unfit
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import PAGE
from xmlgp.text.label_names import normalized_name
from xmlgp.text.names import Names

__all__ = ["Vocabulary", "name_labels", "read_vocabulary", "uri_of"]

#: Formats of rdflib by the endings of names. JSON-LD is not among them: reading it may load a context from elsewhere.
SKOS = {".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".nt": "nt"}

#: The declaration of an entity that refers to another, of which a few can stand for gigabytes, or to a file.
REFERRING = re.compile(rb"<!ENTITY(?:[^>]*&|\s+(?:%\s+)?\S+\s+(?:SYSTEM|PUBLIC)\s)")

#: A URI in brackets, or without them.
URI = re.compile(r"<([^<>]+)>|([A-Za-z][A-Za-z0-9+.-]*:[^\s<>]+)", re.DOTALL)

#: Most bytes of SKOS, which rdflib reads as a whole.
MOST_BYTES = 1 << 28


class Vocabulary(NamedTuple):
    """The concepts of a file, which messages name: preferred labels by URIs, and URIs by names of one concept alone.

    The names are preferred labels and notations. The labels are of one language, which is empty where labels have none.
    `has_numbers` says whether rdflib may have written a notation in another form, such as 004 as 4.
    """

    path: str
    labels: dict[str, str]
    uris: dict[str, str]
    language: str
    has_numbers: bool

    @property
    def same(self) -> dict[str, str]:
        """The URIs by all names, which are URIs, preferred labels and notations."""
        return self.uris | {uri: uri for uri in self.labels}


class Concept(NamedTuple):
    """The preferred label of a concept in one language, or its notation, which has None, and where it is in a file."""

    uri: str
    label: str
    language: str | None
    place: str
    is_number: bool = False


def uri_of(text: str) -> str | None:
    """Return the URI that a text is, perhaps in brackets, or None."""
    match = URI.fullmatch(text.strip())
    return match and (match[1] or match[2])


def read_vocabulary(path: str | os.PathLike[str], language: str | None = None) -> Vocabulary:
    """Return the `Vocabulary` of a file, with labels in a language, by default English or the one of most labels.

    A language stands for its regional variants, and one of these for it. DataFormatError names a malformed line;
    SettingsError if there are no labels in the language; XmlgpError for SKOS if it is malformed, or rdflib is not
    installed.
    """
    path = os.fspath(path)
    kind = SKOS.get(format_ending(path))
    with open_input(path) as stream:
        concepts = list(_read_skos(stream, path, kind) if kind else _read_tsv(stream, path))
    counts = Counter(concept.language for concept in concepts if concept.language is not None)
    if not counts:
        raise XmlgpError(f"{path}: there are no concepts with preferred labels")
    tag = (language or "en").lower().replace("_", "-")
    base = tag.partition("-")[0]

    def rank(other: str) -> tuple[bool, bool, int]:
        return other.lower() == tag, other.lower().partition("-")[0] == base, counts[other]

    chosen = max(sorted(counts), key=rank)
    if language is not None and not any(rank(chosen)[:2]):
        listed = ", ".join(map(excerpt, sorted(counts)))
        raise SettingsError(f"{path}: there are no labels in {excerpt(language)}, only in {listed}")
    labels: dict[str, str] = {}
    names = set()
    for concept in concepts:
        uri, label = normalized_name(concept.uri), normalized_name(concept.label)
        if unfit := describe_unfit(uri + label):
            raise XmlgpError(f"{concept.place}: {excerpt(f'{uri} {label}')} {unfit}")
        if concept.language == chosen:
            # Two labels of a concept are a mistake; their order must not decide which one is shown.
            labels[uri] = min(label, labels.get(uri, label))
        elif concept.language is None:
            names.add((uri, label))
    names.update(labels.items())
    shared = Counter(name for _, name in names)
    has_numbers = any(concept.is_number for concept in concepts)
    return Vocabulary(path, labels, {name: uri for uri, name in names if shared[name] == 1}, chosen, has_numbers)


def name_labels(
    names: Names,
    vocabulary: Vocabulary | None = None,
    note: Callable[[str], object] = ignore,
    earlier: Names | None = None,
) -> Names:
    """Return `Names` whose labels have URIs and preferred labels: those of a `Vocabulary`, or those they had before.

    `earlier` are the names before, by default the same; they have the first labels. A label that had a URI keeps it,
    and another one is the concept whose URI, or else whose preferred label or notation, is its name. A label that none
    of them knows keeps its own name, which is also its URI if it looks like one.
    """
    earlier = earlier or names
    if vocabulary is None and earlier.preferred is None:
        return names
    if names.labels is None:
        raise SettingsError("the labels have no names by which they could be in a vocabulary")
    # The earlier labels are the first.
    uris = list(earlier.uris or ())
    shown = list(earlier.preferred or ())
    uris += [""] * (len(names.labels) - len(uris))
    shown += names.labels[len(shown) :]
    labels, same = (vocabulary.labels, vocabulary.same) if vocabulary else ({}, {})
    for number, name in enumerate(names.labels):
        uri = uris[number] or same.get(normalized_name(name), "")
        shown[number] = labels.get(uri, shown[number])
        uris[number] = uri or (name if "://" in name else "")
    if vocabulary:
        named = sum(uri in labels for uri in uris)
        warning = "" if named else "Warning: "
        language = f", in {excerpt(vocabulary.language)}" if vocabulary.language else ""
        note(f"{warning}{vocabulary.path}: preferred labels of {named} of {counted(len(uris), 'label')}{language}")
        without = [name for name, uri in zip(names.labels, uris, strict=True) if not uri]
        if vocabulary.has_numbers and without:
            mend = "rdflib reads a notation without quotes as a number, 004 as 4: put quotes around it"
            note(f"Warning: {vocabulary.path}: no concept is named {excerpt(without)}; {mend}")
    return names._replace(uris=uris, preferred=shown)


def _read_tsv(stream: ByteStream, path: str) -> Iterator[Concept]:
    for number, line in decoded_lines(LineReader(stream, path)):
        if not line or line.isspace():
            continue
        first, _, rest = line.partition("\t")
        uri = uri_of(first)
        if uri is None:
            form = f"`<URI><TAB>label`, or the file SKOS named {', '.join(SKOS)}; {PAGE} makes it of other tables"
            raise DataFormatError(path, number, f"the line must be {form}, not {excerpt(line)}")
        label = rest.partition("\t")[0]
        if label.strip():
            yield Concept(uri, label, "", f"{path}:{number}")


def _read_skos(stream: BinaryIO, path: str, kind: str) -> Iterator[Concept]:
    try:
        import rdflib
    except ImportError:
        raise XmlgpError(f"{path}: SKOS needs rdflib: pip install 'xmlgp[text]'") from None
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise XmlgpError(f"{path}: SKOS of more than {MOST_BYTES >> 20} MiB is not read; write `<URI><TAB>label`")
    if kind == "xml" and REFERRING.search(content):
        raise XmlgpError(f"{path}: this XML has entities that refer to others or to files, which are refused as unsafe")
    # It logs each URI with a space.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    graph = rdflib.Graph()
    try:
        graph.parse(data=content, format=kind)
    except MemoryError:
        raise
    except Exception as error:  # its parsers raise exceptions of many kinds
        # Without the name that rdflib gives the stream, and the text around the mistake.
        reason = re.sub(r" of <>|file:\S*?(?=:\d)| at \^ in:.*", "", normalized_name(str(error)))
        raise XmlgpError(f"{path}: this is not SKOS in {kind}: {excerpt(reason)}") from None
    for uri, label in sorted(graph.subject_objects(rdflib.SKOS.prefLabel)):
        # A blank node has another name each time.
        if isinstance(uri, rdflib.URIRef):
            yield Concept(str(uri), str(label), getattr(label, "language", None) or "", path)
    for uri, notation in graph.subject_objects(rdflib.SKOS.notation):
        if isinstance(uri, rdflib.URIRef):
            value = getattr(notation, "value", None)
            yield Concept(str(uri), str(notation), None, path, not isinstance(value, str | None))
