"""Vocabularies: the URI, the preferred labels and the notations of concepts, by which the labels of a model are named.

See `xmlgp.text.vocabulary_files` for their files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import normalized_name
from xmlgp.text.names import Names
from xmlgp.text.vocabulary_files import Concept, language_tag, read_concepts

__all__ = ["Vocabulary", "name_labels", "read_vocabulary"]


class Vocabulary(NamedTuple):
    """The URI and the preferred label of each concept by all its names, and the languages, the chosen one first.

    The names are its URI, its labels and its notations, apart from those that several concepts share.
    """

    path: str
    concepts: dict[str, tuple[str, str]]
    languages: list[str]


def read_vocabulary(path: str | os.PathLike[str], language: str | None = None) -> Vocabulary:
    """Return the `Vocabulary` of a file, with labels in a language, by default English or the one of most labels.

    A concept without a label in it has one of another language. DataFormatError names a malformed line; SettingsError
    if there are no labels in the language; XmlgpError for SKOS if it is malformed, or rdflib is not installed.
    """
    path = os.fspath(path)
    concepts = read_concepts(path)
    counts = Counter(language for concept in concepts for language, _ in concept.labels)
    if not counts:
        raise XmlgpError(f"{path}: there are no concepts with preferred labels")
    tag = language_tag("en" if language is None else language)
    languages = sorted(counts, key=lambda other: (_preference(other, tag), -counts[other], other))
    first = languages[0]
    if language is not None and not _preference(first, tag):
        raise SettingsError(f"{path}: there are no labels in {excerpt(language)}, only in {_in_words(languages)}")
    # A name counts as a URI, then as a label in the language, in any language, and as a notation.
    owners = (
        _owners((name, concept) for concept in concepts for name in concept.notations)
        | _owners((label, concept) for concept in concepts for _, label in concept.labels)
        | _owners((label, concept) for concept in concepts for tag, label in concept.labels if tag == first)
        | _owners((concept.uri, concept) for concept in concepts)
    )
    names = {}
    for name, concept in owners.items():
        if concept and concept.labels:
            labels = dict(concept.labels)
            names[name] = (concept.uri, next(labels[tag] for tag in languages if tag in labels))
    return Vocabulary(path, names, languages)


def _owners(names: Iterable[tuple[str, Concept]]) -> dict[str, Concept | None]:
    """Return the concepts by their names; None for a name of several."""
    owners: dict[str, Concept | None] = {}
    for name, concept in names:
        owner = owners.get(name, concept)
        owners[name] = concept if owner and owner.uri == concept.uri else None
    return owners


def name_labels(
    names: Names,
    vocabulary: Vocabulary | None = None,
    note: Callable[[str], object] = ignore,
    earlier: Names | None = None,
) -> Names:
    """Return `Names` whose labels have URIs and preferred labels: those of a `Vocabulary`, or those they had before.

    `earlier` are the names before, by default the same; they have the first labels. A label that neither knows keeps
    its own name, which is also its URI if it looks like one.
    """
    earlier = earlier or names
    if vocabulary is None and earlier.preferred is None:
        return names
    if names.labels is None:
        if vocabulary is None:
            return names._replace(uris=None, preferred=None)
        raise SettingsError(f"{vocabulary.path}: the labels have no names by which they could be in a vocabulary")
    concepts = vocabulary.concepts if vocabulary else {}
    previous = {}
    if earlier.labels and earlier.uris and earlier.preferred:
        previous = dict(zip(earlier.labels, zip(earlier.uris, earlier.preferred, strict=True), strict=True))
    pairs = [
        concepts.get(normalized_name(label)) or previous.get(label) or (label if "://" in label else "", label)
        for label in names.labels
    ]
    if vocabulary:
        _note_named(sum(normalized_name(label) in concepts for label in names.labels), len(pairs), vocabulary, note)
    uris, preferred = map(list, zip(*pairs, strict=True))
    return names._replace(uris=uris, preferred=preferred)


def _note_named(named: int, K: int, vocabulary: Vocabulary, note: Callable[[str], object]) -> None:
    """Note how many of K labels a vocabulary names, and in which of its languages."""
    language, *alternatives = vocabulary.languages
    sentence = f"preferred labels of {named} of {counted(K, 'label')}"
    if language or alternatives:
        sentence += f", in {_in_words([language])}"
    if alternatives:
        sentence += f" (there is also {_in_words(alternatives)})"
    note(f"{vocabulary.path}: {sentence if named else f'warning: {sentence}'}")


def _in_words(languages: Sequence[str]) -> str:
    tags = ", ".join(map(excerpt, filter(None, languages)))
    return f"{tags} and no language" if "" in languages else tags


def _preference(language: str, tag: str) -> int:
    """Return the rank of a language for a tag: the same, a regional variant, what it is a variant of; 0 for others.

    The lower the better; a rank that is not 0 is negative.
    """
    if language == tag:
        return -3
    if language.startswith(f"{tag}-"):
        return -2
    return -1 if language and tag.startswith(f"{language}-") else 0
