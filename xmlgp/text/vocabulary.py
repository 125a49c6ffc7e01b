"""Vocabularies: the URIs and the preferred labels of concepts, by which the labels of a model are named.

A file is Annif's TSV (`<URI><TAB>label`, with or without brackets), or SKOS, which rdflib reads. A concept may have no
label, as deprecated ones have none.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xmlgp.data.file_kinds import format_ending
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.names import describe_unfit
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.documents import PAGE
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
    """The concepts of a file, which messages name: preferred labels by URIs, and URIs by those of one concept alone.

    The labels are of one language, which is empty where labels have none.
    """

    path: str
    labels: dict[str, str]
    uris: dict[str, str]
    language: str

    @property
    def same(self) -> dict[str, str]:
        """The URIs by all names, which are URIs and preferred labels."""
        return self.uris | {uri: uri for uri in self.labels}


def uri_of(text: str) -> str | None:
    """Return the URI that a text is, perhaps in brackets, or None."""
    match = URI.fullmatch(text.strip())
    return match and (match[1] or match[2])


def read_vocabulary(path: str | os.PathLike[str], language: str | None = None) -> Vocabulary:
    """Return the `Vocabulary` of a file, with labels in a language, by default English or the one of most labels.

    DataFormatError names a malformed line; SettingsError if there are no labels in the language; XmlgpError for SKOS if
    it is malformed, or rdflib is not installed.
    """
    path = os.fspath(path)
    kind = SKOS.get(format_ending(path))
    with open_input(path) as stream:
        if kind:
            entries = _read_skos(stream.read(MOST_BYTES + 1), path, kind)
        else:
            entries = list(_read_tsv(decoded_lines(LineReader(stream, path)), path))
    counts = Counter(language for _, _, language in entries)
    if not counts:
        raise XmlgpError(f"{path}: there are no concepts with preferred labels")
    chosen = _language(counts, language)
    if chosen is None:
        listed = ", ".join(map(excerpt, sorted(counts)))
        raise SettingsError(f"{path}: there are no labels in {excerpt(language)}, only in {listed}")
    labels: dict[str, str] = {}
    for uri, label, other in entries:
        if other == chosen:
            # Two labels of a concept are a mistake; their order must not decide which one is shown.
            labels[uri] = min(label, labels.get(uri, label))
    shared = {label for label, count in Counter(labels.values()).items() if count > 1}
    return Vocabulary(path, labels, {label: uri for uri, label in labels.items() if label not in shared}, chosen)


def _language(counts: Counter[str], language: str | None) -> str | None:
    """Return the language of labels that a user means: the same, a regional variant, or what it is a variant of."""
    tag = (language or "en").lower().replace("_", "-")

    def rank(other: str) -> tuple[bool, bool, bool, int]:
        name = other.lower()
        return name == tag, name.startswith(f"{tag}-"), bool(name) and tag.startswith(f"{name}-"), counts[other]

    best = max(sorted(counts), key=rank)
    return best if language is None or any(rank(best)[:3]) else None


def name_labels(
    names: Names,
    vocabulary: Vocabulary | None = None,
    note: Callable[[str], object] = ignore,
    earlier: Names | None = None,
) -> Names:
    """Return `Names` whose labels have URIs and preferred labels: those of a `Vocabulary`, or those they had before.

    `earlier` are the names before, by default the same; they have the first labels. A label that had a URI keeps it,
    and another one is the concept whose URI, or else whose preferred label, is its name. A label that neither knows
    keeps its own name, which is also its URI if it looks like one.
    """
    earlier = earlier or names
    if vocabulary is None and earlier.preferred is None:
        return names
    if names.labels is None:
        if vocabulary is None:
            return names._replace(uris=None, preferred=None)
        raise SettingsError(f"{vocabulary.path}: the labels have no names by which they could be in a vocabulary")
    previous = {}
    if earlier.labels and earlier.uris and earlier.preferred:
        previous = dict(zip(earlier.labels, zip(earlier.uris, earlier.preferred, strict=True), strict=True))
    labels, by_label = (vocabulary.labels, vocabulary.uris) if vocabulary else ({}, {})
    pairs = []
    for name in names.labels:
        uri, preferred = previous.get(name, ("", name))
        normalized = normalized_name(name)
        uri = uri or (normalized if normalized in labels else by_label.get(normalized, ""))
        pairs.append((uri or (name if "://" in name else ""), labels.get(uri, preferred)))
    if vocabulary:
        named = sum(uri in labels for uri, _ in pairs)
        sentence = f"preferred labels of {named} of {counted(len(pairs), 'label')}"
        sentence += f", in {excerpt(vocabulary.language)}" if vocabulary.language else ""
        note(f"{vocabulary.path}: {sentence if named else f'warning: {sentence}'}")
    uris, shown = map(list, zip(*pairs, strict=True))
    return names._replace(uris=uris, preferred=shown)


def _read_tsv(lines: Iterator[tuple[int, str]], path: str) -> Iterator[tuple[str, str, str]]:
    for number, line in lines:
        if not line or line.isspace():
            continue
        first, _, rest = line.partition("\t")
        uri = uri_of(first)
        if uri is None:
            form = f"`<URI><TAB>label`, or the file SKOS named {', '.join(SKOS)}; {PAGE} makes it of other tables"
            raise DataFormatError(path, number, f"the line must be {form}, not {excerpt(line)}")
        label = rest.partition("\t")[0]
        if label.strip():
            yield _entry(uri, label, "", f"{path}:{number}")


def _entry(uri: str, label: str, language: str, path: str) -> tuple[str, str, str]:
    """Return a URI, a preferred label and its language; XmlgpError if a label of a model cannot have such names."""
    names = normalized_name(uri), normalized_name(label)
    for text in names:
        if unfit := describe_unfit(text):
            raise XmlgpError(f"{path}: {excerpt(text)} {unfit}")
    return *names, language


def _read_skos(content: bytes, path: str, kind: str) -> list[tuple[str, str, str]]:
    try:
        import rdflib
    except ImportError:
        raise XmlgpError(f"{path}: SKOS needs rdflib: pip install 'xmlgp[text]'") from None
    if len(content) > MOST_BYTES:
        raise XmlgpError(f"{path}: SKOS of more than {MOST_BYTES >> 20} MiB is not read; write `<URI><TAB>label`")
    # It logs each URI with a space.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    if kind == "xml" and REFERRING.search(content):
        raise XmlgpError(f"{path}: this XML has entities that refer to others or to files, which are refused as unsafe")
    graph = rdflib.Graph()
    try:
        graph.parse(data=content, format=kind)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its parsers raise exceptions of many kinds
        # Without the name that rdflib gives the stream, and the text around the mistake.
        reason = re.sub(r" of <>|file:\S*?(?=:\d)| at \^ in:.*", "", normalized_name(str(error)))
        raise XmlgpError(f"{path}: this is not SKOS in {kind}: {excerpt(reason)}") from None
    labels = graph.subject_objects(rdflib.SKOS.prefLabel)
    # A blank node has another name each time.
    found = [(str(uri), value) for uri, value in labels if isinstance(uri, rdflib.URIRef)]
    return [_entry(uri, str(value), getattr(value, "language", None) or "", path) for uri, value in sorted(found)]
