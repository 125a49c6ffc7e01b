"""Read corpora in memory: as a file, gzipped, and as standard input, in blocks of any size."""

import gzip
from unittest import mock

from tests.fuzzing.data_files import standard_input
from xmlgp.api.corpus import Corpus
from xmlgp.api.points import Signature
from xmlgp.api.source import open_lines
from xmlgp.data import lines
from xmlgp.runtime.progress import QUIET
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.names import Names
from xmlgp.text.word_counts import Analysis, WordCounts

__all__ = ["documents_of", "in_every_way", "signature_of", "vectorized", "vectorized_by"]


def documents_of(path, options=NO_OPTIONS, **arguments):
    """Return the documents of a corpus at a path."""
    with open_lines(str(path), options.encoding) as lines:
        return list(read_documents(str(path), lines, options, **arguments))


def in_every_way(path, content, read):
    """Return `read(path)` for a corpus in a file; check that it is the same gzipped, piped and in small blocks."""
    path.write_bytes(content)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(content))
    found = read(str(path))
    assert read(str(packed)) == found
    # Standard input has no ending that would tell the format.
    if path.suffix not in (".csv", ".json", ".jsonl", ".ndjson"):
        for piped in (content, gzip.compress(content)):
            with standard_input(piped):
                assert read("-") == found
    with mock.patch.object(lines, "BLOCK_BYTES", 7):
        assert read(str(path)) == found
    return found


def vectorized(path, content, analysis=None, options=NO_OPTIONS):
    """Return a corpus with this content as points to train on."""
    return vectorized_by(path, content, WordCounts(analysis or Analysis(), [], options.columns()), options=options)


def vectorized_by(path, content, vectorizer, labels=(), options=NO_OPTIONS):
    """Return a corpus with this content, vectorized with the words and labels of a model, and its own ones."""
    path.write_bytes(content)
    model = signature_of(vectorizer, labels)
    with open_lines(str(path), options.encoding) as reader:
        return Corpus(str(path), reader, options, QUIET).read(model)


def signature_of(vectorizer, labels):
    """Return what a model of these words and labels expects of points."""
    return Signature(Names(list(labels), vectorizer.words, vectorizer), vectorizer.D, len(labels))
