"""Read corpora in memory: as a file, gzipped, and as standard input, in blocks of any size."""

import gzip
from unittest import mock

from tests.fuzzing.data_files import standard_input
from xmlgp.data import lines
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.text.analysis import Analysis
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.labels import LabelNumbers
from xmlgp.text.vectorize import check_vocabulary, vectorize
from xmlgp.text.word_counts import WordCounts

__all__ = ["documents_of", "in_every_way", "vectorized", "vectorized_by"]


def documents_of(path, options=NO_OPTIONS, **arguments):
    """Return the documents of a corpus at a path."""
    with open_input(path, options.encoding) as stream:
        return list(read_documents(LineReader(stream, str(path), options.encoding), options, **arguments))


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
    with mock.patch.object(lines, "BLOCK_BYTES", 7), mock.patch.object(lines, "LINES", 2):
        assert read(str(path)) == found
    return found


def vectorized(path, content, analysis=None, options=NO_OPTIONS):
    """Return a corpus with this content, vectorized."""
    path.write_bytes(content)
    with open_input(path, options.encoding) as stream:
        return vectorized_by(LineReader(stream, str(path)), WordCounts(analysis or Analysis(), []), options=options)


def vectorized_by(reader, vectorizer, labels=(), options=NO_OPTIONS, extend=True):
    """Return an open corpus, vectorized with the words and labels of another one."""
    vectorizer = WordCounts(vectorizer.analysis, vectorizer.words, options.columns(vectorizer.columns))
    documents = read_documents(reader, options, vectorizer.columns)
    corpus = vectorize(documents, reader.path, vectorizer, LabelNumbers(labels), extend)
    if extend:
        check_vocabulary(corpus, reader.path)
    return corpus
