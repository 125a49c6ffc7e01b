"""Vectorize corpora: their documents become rows of numbers in a data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmlgp.api.points import FilePath, Signature
from xmlgp.api.source import Source
from xmlgp.data.dataset import Dataset, empty_dataset, stack
from xmlgp.data.files import check_outputs, locate
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.data_folder import files_to_replace, write_folder
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.word_counts import Analysis

__all__ = ["vectorize"]


def vectorize(
    path: FilePath,
    folder: FilePath,
    tests: Sequence[FilePath] = (),
    *,
    corpus: CorpusOptions = NO_OPTIONS,
    analysis: Analysis | None = None,
    reporter: Reporter = QUIET,
) -> list[Path]:
    """Vectorize a corpus, and test corpora with its words and labels, into a folder; return the files.

    Parameters
    ----------
    path, tests : path
    folder : path
        If anything fails, its earlier files stay. A data set of text in it is replaced, with its test points.
    corpus : CorpusOptions
        How the corpora are read, as in a `Source`.
    analysis : Analysis, optional
        Which words are features. Default: all single words.
    reporter : xmlgp.runtime.progress.Reporter
    """
    inputs = [locate(path, "train"), *(locate(test, "test") for test in tests)]
    sources = [Source(file, corpus=corpus, analysis=analysis) for file in inputs]
    names = ["train.txt", *(f"test-{number}.txt" if number > 1 else "test.txt" for number in range(1, len(inputs)))]
    check_outputs(files_to_replace(Path(folder), names), inputs)
    training, _, vocabulary = sources[0].read(reporter=reporter)
    if vocabulary.vectorizer is None:
        raise SettingsError(f"{inputs[0]}: these are rows of numbers already")
    points = [training]
    for source in sources[1:]:
        with source.stream(Signature(vocabulary, training.D, training.K), True, reporter) as stream:
            blocks = [block.points for block in stream.blocks()]
        # New labels follow those of the training corpus.
        without_new = [Dataset(block.features, block.labels[:, : training.K]) for block in blocks]
        points.append(stack([empty_dataset(training.D, training.K), *without_new]))
        left_out = counted(sum(block.labels.nnz for block in blocks) - points[-1].labels.nnz, "label")
        documents = counted(points[-1].N, "document")
        reporter.note(f"{source.title}: {documents}; {left_out} left out because no training document has them")
    return write_folder(folder, dict(zip(names, points, strict=True)), vocabulary)
