"""Vocabularies: the URI, the preferred labels and the notations of concepts, by which the labels of a model are named.

A file is Annif's TSV (`<URI><TAB>label`, perhaps a notation as a third field), CSV with the columns `uri`, `label` or
`label_LANGUAGE`, and `notation`, or SKOS, read by rdflib.
"""

import logging
import os
import re
from collections import Counter
from typing import NamedTuple

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.data.names import CONTROL
from xmlgp.data.streams import open_input
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.delimited import read_rows

__all__ = ["Vocabulary", "name_labels", "read_vocabulary"]

#: Formats of rdflib by the endings of names. JSON-LD is not among them: reading it may load a context from elsewhere.
SKOS = {".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".nt": "nt"}

#: The declaration of an entity that refers to another, of which a few can stand for gigabytes, or to a file.
REFERRING = re.compile(rb"<!ENTITY(?:[^>]*&|\s+(?:%\s+)?\S+\s+(?:SYSTEM|PUBLIC)\s)")


class Concept(NamedTuple):
    """A URI, preferred labels by language ("" for none), and notations."""

    uri: str
    labels: dict[str, str]
    notations: list[str]


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
    ending = os.path.splitext(path.removesuffix(".gz"))[1].lower()
    with open_input(path) as stream:
        if ending in SKOS:
            concepts = _read_skos(stream, path, SKOS[ending])
        else:
            lines = decoded_lines(LineReader(stream, path))
            concepts = list((_read_csv if ending == ".csv" else _read_tsv)(lines, path))
    counts = Counter(found for concept in concepts for found in concept.labels)
    if not counts:
        raise XmlgpError(f"{path}: there are no concepts with preferred labels")
    first = "en" if language is None else language
    languages = sorted(counts, key=lambda found: (found != first, -counts[found], found))
    if language is not None and languages[0] != language:
        raise SettingsError(f"{path}: there are no labels in {excerpt(language)}, only in {_in_words(languages)}")
    found = {}
    for names_of in (
        lambda concept: [concept.uri],
        lambda concept: [concept.labels[languages[0]]] if languages[0] in concept.labels else [],
        lambda concept: concept.labels.values(),
        lambda concept: concept.notations,
    ):
        owners = {}
        for concept in concepts:
            for name in names_of(concept):
                owners.setdefault(name, {})[concept.uri] = concept
        for name, same in owners.items():
            found.setdefault(name, next(iter(same.values())) if len(same) == 1 else None)
    chosen = {
        name: (concept.uri, next(concept.labels[own] for own in languages if own in concept.labels))
        for name, concept in found.items()
        if concept and concept.labels
    }
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
    concepts, known = vocabulary.concepts if vocabulary else {}, {}
    if earlier.preferred:
        known = dict(zip(earlier.labels, zip(earlier.uris, earlier.preferred, strict=True), strict=True))
    found = [
        concepts.get(label) or known.get(label) or (label if "://" in label else "", label) for label in names.labels
    ]
    if vocabulary:
        named = sum(label in concepts for label in names.labels)
        language, *others = vocabulary.languages
        text = f", in {_in_words([language])} (there is also {_in_words(others)})" if others else ""
        count = f"{named} of {len(found)} label{'s' * (len(found) != 1)}"
        note(f"{vocabulary.path}: {'' if named else 'warning: '}preferred labels of {count}{text}")
    uris, preferred = map(list, zip(*found, strict=True))
    return names._replace(uris=uris, preferred=preferred)


def _in_words(languages):
    return ", ".join(map(excerpt, filter(None, languages))) + " and no language" * ("" in languages)


def _plain(text):
    """Return text in a line, without control characters, as a name must be."""
    return " ".join(CONTROL.sub(" ", text).split())


def _read_tsv(lines, path):
    for number, line in lines:
        uri, *fields = (field.strip() for field in line.split("\t"))
        if not uri and not fields:
            continue
        if not (uri.startswith("<") and uri.endswith(">") and fields and fields[0]):
            raise DataFormatError(path, number, f"the line must be `<URI><TAB>label`, not {excerpt(line)}")
        label, *notations = map(_plain, filter(None, fields))
        yield Concept(uri[1:-1], {"": label}, notations)


def _read_csv(lines, path):
    rows = read_rows(lines, path, ",")
    _, header = next(rows, (1, []))
    columns = {name: name.partition("_")[2] for name in header if name == "label" or name.startswith("label_")}
    if "uri" not in header or not columns:
        found = ", ".join(map(excerpt, header)) or "none"
        raise DataFormatError(path, 1, f"a vocabulary needs the columns uri and label or label_LANGUAGE, not {found}")
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataFormatError(path, number, f"this row has {len(fields)} fields, but the header has {len(header)}")
        row = {name: _plain(field) for name, field in zip(header, fields, strict=True)}
        labels = {language: row[name] for name, language in columns.items() if row[name]}
        yield Concept(row["uri"].strip("<>"), labels, list(filter(None, [row.get("notation")])))


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
    try:
        graph = rdflib.Graph().parse(data=content, format=name)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its parsers raise exceptions of many kinds
        # Without the name that rdflib gives the stream, and the text around the mistake.
        reason = re.sub(r" of <>|file:\S*?(?=:\d)| at \^ in:.*", "", _plain(str(error)))
        raise XmlgpError(f"{path}: this is not SKOS in {name}: {excerpt(reason)}") from None
    skos = rdflib.namespace.SKOS
    concepts = {}
    for subject, _, label in graph.triples((None, skos.prefLabel, None)):
        concept = concepts.setdefault(str(subject), Concept(str(subject), {}, []))
        language = (getattr(label, "language", None) or "").lower()
        # Two labels of a language are a mistake in the vocabulary; which one is shown must not depend on their order.
        concept.labels[language] = min(_plain(str(label)), concept.labels.get(language, _plain(str(label))))
    for subject, _, notation in graph.triples((None, skos.notation, None)):
        if str(subject) in concepts:
            concepts[str(subject)].notations.append(_plain(str(notation)))
    return [concepts[uri] for uri in sorted(concepts)]
