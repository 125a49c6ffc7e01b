"""One place where a path becomes points: rows of numbers, perhaps with names beside them, or a corpus of text.

A file is opened once; its name, its first line and the options decide whether it is rows or a corpus. Every
function raises DataFormatError, which names the line, if the file is malformed, and SettingsError if the file is text
and the model was not trained on text. A path is a file, `-` for standard input, or a folder, see `xmlgp.data.locate`.
Any of the options (`CorpusOptions`) makes the file a corpus.
"""

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data import formats
from xmlgp.data.dataset import Dataset, check_sizes, no_points, stack, widened
from xmlgp.data.formats import LIBSVM, MULTILABEL, REPOSITORY, fitted, read_blocks, read_rows
from xmlgp.data.label_pairs import pairs_beside
from xmlgp.data.lines import LineReader
from xmlgp.data.locate import locate, splits_beside
from xmlgp.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.runtime.progress import ignore, silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Vectorizer, checked_analysis
from xmlgp.text.corpus import is_corpus, open_corpus, read_documents
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.formats import format_of_corpus, has_corpus_ending
from xmlgp.text.labels import BadName, LabelNumbers, matrix_of_labels
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names, names_file, read_names
from xmlgp.text.transformer import Transformer
from xmlgp.text.vectorize import vectorize, vectorize_blocks

__all__ = [
    "LabelledPoints",
    "Rows",
    "TrainingData",
    "open_points",
    "read_known_data",
    "read_labels",
    "read_more_data",
    "read_training_data",
]


class TrainingData(NamedTuple):
    """Training points, the format of their file, `REPOSITORY` (also of text) or `LIBSVM`, and their names."""

    dataset: Dataset
    format: str
    names: Names


class Block(NamedTuple):
    """Consecutive points: their numbers from 1, features and labels; of documents also B texts and B identifiers.

    The identifier of a malformed point is its DataFormatError.
    """

    numbers: range
    points: Dataset
    texts: list | None = None
    ids: list | None = None

    @property
    def identifiers(self):
        """The identifiers of documents, and the numbers of other points."""
        if self.ids is None:
            return list(self.numbers)
        return [number if own is None else own for number, own in zip(self.numbers, self.ids, strict=True)]


def read_training_data(path, options=NO_OPTIONS, analysis=None, cache=True, progress=silent, note=ignore, same=None):
    """Read `TrainingData`; a corpus is vectorized with an `Analysis`, by default with its defaults.

    Labels of a corpus that are the `same` are one, as for `LabelNumbers`.

    XmlgpError if a corpus has no words or labels, or if a vectorizer beside the file is malformed; other names that
    cannot be used are noted.
    """
    with _opened(path, "train", options, note=note) as (reader, is_text):
        analysis = checked_analysis(analysis, is_text, reader.path)
        for file in splits_beside(reader.path):
            note(f"{file} is not used: all points of {reader.path} are for training")
        for file in pairs_beside(reader.path, "train"):
            note(f"{file} is not used: its pairs of a point and a label stay in the training data")
        if is_text:
            vectorizer = Vectorizer(analysis, [], options.columns())
            how = {"extend": True, "cache": cache, "progress": progress, "note": note}
            found = vectorize(reader, vectorizer, options=options, same=same, **how)
            return _of_corpus(found, reader.path, note)
        dataset, data_format = read_rows(reader, cache, progress, note=note)
    return TrainingData(dataset, data_format, _names_beside(reader.path, dataset.D, dataset.K, note))


def read_more_data(path, names, D, K, options=NO_OPTIONS, cache=True, progress=silent, note=ignore):
    """Read more `TrainingData` for a model with these `Names`, D features and K labels, which come first.

    Of a corpus, new words and labels follow those of the model; names of more features and labels of rows are read
    beside the file. The data have names as far as the model has. SettingsError also if the points have fewer features
    or labels than the model, or if names are missing or others than those of the model.
    """
    with _opened(path, "train", options, names, note) as (reader, is_text):
        path = reader.path
        if is_text:
            how = {"extend": True, "cache": cache, "progress": progress, "note": note}
            found = vectorize(reader, names.vectorizer, names.labels, options, names.same, **how)
            return _of_corpus(found, path, note, more=True)
        dataset, data_format = read_rows(reader, cache, progress, K > 1, note)
    if data_format in (LIBSVM, MULTILABEL):  # which do not declare their sizes
        dataset = fitted(dataset, max(D, dataset.D), K, path)
    check_sizes(dataset, D, K, path)
    beside = _names_beside(path, dataset.D, dataset.K, note)
    features = _more_names("feature", FEATURES, names.features, beside.features, dataset.D, path, note)
    labels = _more_names("label", LABELS, names.labels, beside.labels, dataset.K, path, note)
    vectorizer = names.vectorizer
    if isinstance(vectorizer, Transformer):
        vectorizer = vectorizer if dataset.D == D else None
    elif vectorizer and len(features) > D:
        _check_unique(features, D, path)
        vectorizer = Vectorizer(vectorizer.analysis, features, vectorizer.columns)
    return TrainingData(dataset, data_format, Names(labels, features, vectorizer))


def read_known_data(path, part, names, sizes, options=NO_OPTIONS, cache=True, progress=silent, note=ignore):
    """Read points for a trained model with these `Names` and `sizes`, D and K (`TrainingData`).

    Words that it has not are left out. Labels that it has not follow its own, in the names of the data, too.
    """
    with _opened(path, part, options, names, note) as (reader, is_text):
        if not is_text:
            dataset, data_format = read_rows(reader, cache, progress, sizes[1] > 1, note)
            if data_format == MULTILABEL:
                dataset = fitted(dataset, *sizes, reader.path, note)
            return TrainingData(dataset, data_format, names)
        texts = Texts(reader, names, options, True, note, progress, cache)
        blocks = [no_points(texts.D, texts.K, texts.widths), *(block.points for block in texts.blocks())]
    K = len(texts.labels)
    dataset = stack([Dataset(block.features, widened(block.labels, K)) for block in blocks])
    return TrainingData(dataset, REPOSITORY, names._replace(labels=texts.labels))


class LabelledPoints(NamedTuple):
    """The true labels of points, a csr_array of bool, N×K, K names and N identifiers or None, and their features, D.

    If they are `open`, there may be more labels than K, which no point has.
    """

    labels: csr_array
    names: list | None = None
    ids: list | None = None
    D: int = 0
    open: bool = False


def read_labels(path, columns, named, several=None, options=NO_OPTIONS, cache=True, progress=silent, note=ignore):
    """Read the labels of points (`LabelledPoints`) without a vectorizer; labels of a corpus are sorted by name.

    `columns` returns the usual ones of a corpus. Rows of numbers get the names of labels beside them if `named`;
    `several` is as for `read_rows`.
    """
    with _opened(path, "test", options, note=note) as (reader, is_text):
        path = reader.path
        if not is_text:
            labels, D, is_open = formats.read_labels(reader, cache, progress, several, note)
            names = _names_beside(path, None, labels.shape[1], note).labels if named else None
            return LabelledPoints(labels, names, None, D, is_open)
        numbers = LabelNumbers()
        found = []
        lengths = []
        ids = []
        with progress(f"reading {path}", unit=" documents") as bar:
            for document in read_documents(reader, options, columns(), note=note, with_texts=False):
                try:
                    found.extend(map(numbers.__getitem__, document.labels))
                except BadName as error:
                    raise DataFormatError(path, document.line, str(error)) from None
                lengths.append(len(document.labels))
                ids.append(document.id)
                bar.update(1)
    names, places = numbers.ordered()
    matrix = matrix_of_labels(places[np.array(found, np.int32)], np.array(lengths, np.int64), len(names))
    return LabelledPoints(matrix, names, ids)


@contextlib.contextmanager
def open_points(path, names, sizes, options=NO_OPTIONS, labelled=False, note=ignore, keep_errors=False, beside=None):
    """Open points to be scored by a model with these `Names` and `sizes`, D and K; yield `Rows` or `Texts`, by blocks.

    Unless `labelled`, no labels of documents are read, a line may be a text alone, and the lines of a pipe come as soon
    as they are there. With `keep_errors`, malformed lines are points without features, where the format allows it. The
    points get the dense features `beside` them (`DenseRows`).
    """
    with _opened(path, "test", options, names, note) as (reader, is_text):
        if not labelled:
            reader.answer_at_once()
        if keep_errors:
            reader.errors = {}
        if is_text:
            points = Texts(reader, names, options, labelled, note)
        else:
            points = Rows(*read_blocks(reader, *sizes, labelled, note), reader)
        points.beside = beside
        if not is_text:
            # Rows of another number get their error before the first is scored.
            points.count()
        yield points


class _Points:
    """Points that are read by blocks, which may have dense features of their own, and others `beside` (`DenseRows`)."""

    beside = None
    own_widths = ()

    @property
    def widths(self):
        """The widths of their dense blocks (list)."""
        return [*self.own_widths, *(self.beside.dense.widths if self.beside else ())]

    def count(self):
        """Return the number of points; see `Texts._count`."""
        N = self._count()
        if self.beside:
            self.beside.check(N)
        return N

    def blocks(self):
        """Yield the points, a `Block` at a time."""
        start = 0
        for block in self._read_blocks():
            if self.beside:
                self.beside.check(start + block.points.N, more=True)
                block = block._replace(points=self.beside.beside(block.points, start))
            yield block
            start += block.points.N
        if self.beside:
            self.beside.check(start)


class Rows(_Points):
    """Points that are rows of numbers, of shape N, D, K, from their places and blocks (`Dataset`); one may have texts.

    Those in libsvm format have the model's features. The points of one block may have identifiers, `ids`. Names of
    `labels` may be more than K, as those of `Texts`.
    """

    is_text = False
    without_words = 0

    def __init__(self, shape, blocks, reader=None, texts=None, ids=None, labels=None):
        (self._N, self.D, self.K), self._blocks, self._texts, self.labels = shape, blocks, texts, labels
        self._ids = ids
        self.waits, self._errors = (reader.waits, reader.errors) if reader else (lambda: False, None)

    def _count(self):
        return self._N

    def _read_blocks(self):
        first = 1
        for line, block in self._blocks:
            ids = self._ids
            if self._errors:
                ids = [self._errors.pop(line + place, None) for place in range(block.N)]
            yield Block(range(first, first + block.N), block, self._texts, ids)
            first += block.N


class Texts(_Points):
    """Points that are documents, with the D features and K labels of the model; K is 0 if labels are not read.

    Labels that the model has not follow its own, also in the names, `labels`: later blocks may have more of them.
    `without_words` counts documents without a word that the model knows; it is complete once `blocks` has ended.
    """

    is_text = True

    def __init__(self, reader, names, options, labelled, note=ignore, progress=silent, cache=False):
        first = reader.peek_line()
        if not labelled and not options.format and first:
            options = options._replace(format=format_of_corpus(reader.path, first, options, names.vectorizer.columns))
            if options.format == "annif":
                text = "taking what follows a tab as labels; --corpus-format lines takes it as text"
                note(f"{reader.path}: {text}")
        numbers = LabelNumbers(*(names.labels, names.same) if labelled else ())
        self.D = len(names.vectorizer.words)
        self.K = len(numbers.names)
        self.without_words = 0
        self._corpus = (reader, names.vectorizer, numbers, options)
        self._counted = None
        self._labelled = labelled
        self._note = note
        self._progress = progress
        self._same = names.same
        self.labels = numbers.names
        self.waits = reader.waits
        self._cache = cache
        analysis = names.vectorizer.analysis
        self.own_widths = [analysis.encoder.width] if analysis.encoder else []
        # Documents without a word are not worth a note where none can have one.
        self._may_lack_words = analysis.analyzer != "none"

    def _count(self):
        """Return the number of documents, for which all are read; then blocks have no texts, and as ids only errors."""
        reader, vectorizer, numbers, options = self._corpus
        how = {"extend": False, "labelled": self._labelled, "note": self._note}
        self._counted = vectorize(reader, vectorizer, numbers.names, options, self._same, **how)
        return self._counted.N

    def _read_blocks(self):
        if self._counted is None:
            read = vectorize_blocks(*self._corpus, self._labelled, self._note, self._progress, self._cache)
        else:
            read = ((None, points) for points in self._counted.blocks())
            errors = self._counted.errors
        first = 1
        for documents, points in read:
            numbers = range(first, first + points.N)
            if documents:
                block = Block(numbers, points, [own.text for own in documents], [own.id for own in documents])
            else:
                block = Block(numbers, points, ids=[errors.get(number - 1) for number in numbers])
            if self._may_lack_words:
                self.without_words += np.count_nonzero(np.diff(points.features.sparse.indptr) == 0)
                self.without_words -= sum(isinstance(own, DataFormatError) for own in block.ids)
            yield block
            first += points.N


@contextlib.contextmanager
def _opened(path, part, options, names=None, note=ignore):
    """Open points; yield what `open_corpus` yields, and whether it is text.

    Without `names`, those of a model, the points are for a new one, which may be trained on text.
    """
    path = locate(os.fspath(path), part)
    with open_corpus(path, options, note) as reader:
        first = reader.peek_line()
        named = any(options) or has_corpus_ending(path) or not isinstance(reader, LineReader)
        for_text = bool(names and names.vectorizer)
        # No documents are an empty corpus to a model of text.
        is_text = bool(named or (is_corpus(path, first, for_text) if first else for_text))
        if is_text and names is not None and not names.vectorizer:
            if named:
                raise SettingsError(f"{path} is text, but the model was not trained on text")
            # As rows it gets an error that says what is wrong with its first line.
            is_text = False
        yield reader, is_text


def _of_corpus(found, path, note, more=False):
    """Return the `TrainingData` of a corpus, and say what it has."""
    dataset = found.dataset()
    note(f"{path}: {found.summary(more)}")
    return TrainingData(dataset, REPOSITORY, Names(found.labels, found.vectorizer.words, found.vectorizer))


def _is_file(path):
    return path != "-" and os.path.isfile(path)


def _beside(path, name):
    return os.path.join(os.path.dirname(path), name)


def _names_beside(path: str, D: int | None, K: int, note: Callable[[str], object]) -> Names:
    """Return the `Names` beside points, those of labels only if D is None."""
    if not _is_file(path):
        return Names()
    folder = os.path.dirname(path) or os.curdir
    try:
        return read_names(folder, D, K)
    except XmlgpError as error:
        # Without a vectorizer, files of these names may be something else.
        if os.path.isfile(_beside(path, VECTORIZER)):
            raise
        if isinstance(error, DataFormatError) and error.path == str(names_file(folder, FEATURES)):
            note(f"names of features are not used: {error}")
            return read_names(folder, None, K)
        note(f"names are not used: {error}")
        return Names()


def _more_names(kind, name, known, beside, count, path, note):
    """Return the names of features or labels of more data, the first of which are those of the model, or None.

    `known` are those of the model, `beside` those in the file `name` beside the data, which have `count` of the kind.
    """
    file = str(names_file(os.path.dirname(path), name))
    if known is None:
        if beside is not None:
            note(f"{file} is not used: the model has no names of {kind}s")
        return None
    if beside is None:
        if count == len(known):
            return known
        where = f"must be in {file}" if _is_file(path) else f"must be in {name} beside a file, which a pipe lacks"
        raise SettingsError(
            f"{path}: the points have {count} {kind}s, but the model has names for {len(known)}; those of all {where}"
        )
    for number, (own, other) in enumerate(zip(known, beside, strict=False)):
        if own != other:
            raise SettingsError(
                f"{file}:{number + 1}: names that clash: {kind} {number} is {excerpt(other)}, but the model calls it "
                f"{excerpt(own)}"
            )
    return beside


def _check_unique(words, D, path):
    """Raise SettingsError if a word after the first D ones occurs before: text could not be counted."""
    known = set(words[:D])
    for number, word in enumerate(words[D:], D):
        if word in known:
            place = f"{names_file(os.path.dirname(path), FEATURES)}:{number + 1}"
            raise SettingsError(f"{place}: feature {number} is {excerpt(word)}, as an earlier one is")
        known.add(word)
