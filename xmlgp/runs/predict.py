"""Predict the labels of many points, on this machine or on a Dask cluster, with the same result to the last digit.

Points are scored in shards of a fixed number of rows, wherever the blocks end that a file is read in. BLAS adds up in
an order that depends on the shapes of matrices, so only equal shards have equal scores.
"""

import copy
import functools
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, UsageError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import AssignmentRule, RestrictedPredictor, assign
from xmlgp.prediction.label_files import explain_labels, format_of, label_records, write_labels
from xmlgp.prediction.predictor import MEMORY
from xmlgp.prediction.scores_file import Scores, write_scores
from xmlgp.runs.stored import open_predictor
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.names import Names
from xmlgp.work import THIS_MACHINE

__all__ = ["ROWS", "Predictions", "StoredPredictor", "predict_blocks"]

#: Points of a shard: parts of 256 for 16 cores (`xmlgp.prediction.predictor`).
ROWS = 4096


class StoredPredictor:
    """The predictor of a model, which workers of a cluster open from its folder.

    Parameters
    ----------
    predictor : Predictor
    folder : ModelFolder or None
        All workers see it under the same path; without it there are none.
    """

    def __init__(self, predictor, folder):
        self._predictor = predictor
        self._place = folder and (os.path.abspath(folder.path), _identity(folder))

    def __getstate__(self):
        return {"_predictor": None, "_place": self._place}

    @property
    def predictor(self):
        """The predictor."""
        return self._predictor or _opened(*self._place)


def _identity(folder):
    """Return what tells a model from others that the folder may have; tuning does not change it."""
    facts = [folder.description[name] for name in ("settings", "data", "arrays")]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _opened(path, identity):
    try:
        folder, predictor = ModelFolder.read(path, lambda folder: (folder, open_predictor(folder)))
    except ModelFolderError as error:
        # The command has read the model.
        raise OSError(str(error)) from None
    if _identity(folder) != identity:
        raise OSError(f"{path}: this is another model than the one to predict with")
    return predictor


class _Scoring(NamedTuple):
    """What all shards share: how labels are chosen and scored, see `predict_blocks`."""

    stored: StoredPredictor
    rule: AssignmentRule
    output: str | None
    with_std: bool
    memory: int
    calibrated: bool
    allowed: np.ndarray | None

    def opened(self):
        predictor = self.stored.predictor
        if not self.calibrated:
            predictor = copy.copy(predictor)
            predictor.calibration = None
        return predictor if self.allowed is None else RestrictedPredictor(predictor, self.allowed), self


def predict_blocks(
    stored,
    blocks,
    rule,
    output=None,
    *,
    with_std=False,
    memory=MEMORY,
    calibrated=True,
    allowed=None,
    work=THIS_MACHINE,
):
    """Yield the labels of points, a chunk of points at a time, in the order of the points.

    Parameters
    ----------
    stored : StoredPredictor
    blocks : iterable of (sequence, csr_array)
        The identifiers of consecutive points, and their features as read.
    rule : AssignmentRule
    output : str, optional
        The scores, see `Predictor.top`.
    with_std : bool
        Whether the scores have standard deviations.
    memory : int
        Megabytes that scoring may take, on each thread of a cluster, besides the model.
    calibrated : bool
        Whether probabilities are calibrated if the model has a calibration.
    allowed : ndarray of bool, K, optional
        The labels that are considered; all by default.
    work : ThisMachine or DaskCluster
        Scores shards of points. A few of them are in memory, however many points there are.

    Yields
    ------
    identifiers : list
    features : csr_array
    scores : Scores

    Raises
    ------
    SettingsError
        If the points do not have the model's number of features.
    NumericalError
        If a score is not finite.
    ClusterError
        If a cluster is lost, or a worker cannot read the model.
    """
    waiting = deque()

    def shards():
        for identifiers, features in _shards(blocks):
            waiting.append((identifiers, features))
            yield (features,)

    scoring = _Scoring(stored, rule, output, with_std, memory, calibrated, allowed)
    for chunks in work.map(_assigned, shards(), scoring):
        identifiers, features = waiting.popleft()
        place = 0
        for scores in chunks:
            scores = Scores(*scores)
            rows = slice(place, place + scores.N)
            yield identifiers[rows], features[rows], scores
            place += scores.N


def _assigned(shared, features):
    """Return the fields of the `Scores` of points, a chunk at a time."""
    ranker, how = shared
    chunks = assign(ranker, features, how.rule, how.output, how.with_std, how.memory)
    return [(chunk.indptr, chunk.labels, chunk.scores, chunk.K, chunk.std) for chunk in chunks]


def _shards(blocks):
    """Yield the points of blocks in shards of `ROWS`; the last one may have fewer."""
    identifiers, parts, count = [], [], 0
    for names, features in blocks:
        start = 0
        while start < len(names):
            stop = min(len(names), start + ROWS - count)
            identifiers += names[start:stop]
            parts.append(features[start:stop])
            count += stop - start
            start = stop
            if count == ROWS:
                yield identifiers, _stacked(parts)
                identifiers, parts, count = [], [], 0
    if count:
        yield identifiers, _stacked(parts)


def _stacked(parts):
    # Some versions of SciPy return a matrix.
    return parts[0] if len(parts) == 1 else csr_array(vstack(parts, format="csr"))


@dataclass(frozen=True)
class Predictions:
    """The labels of points with their scores, which are computed whenever they are asked for.

    It yields a dict for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, best label first. A
    label is its name, or its number if the model has no names. With standard deviations, a label also has `std`; with
    an explanation, also `for` and `against`, lists of `{"word": ..., "contribution": ...}`.

    Attributes
    ----------
    stored : StoredPredictor
    names : Names
        Of the model.
    source : callable
        Returns a context manager with the points, `Rows` or `Texts` of `xmlgp.text.points`.
    label : str
        What the points are called in messages.
    rule : AssignmentRule
    output : str
        What the scores are: "probability" or "utility".
    explain : int or None
        Features for and against each label.
    options : dict
        Of `predict_blocks`.
    progress, note : callable
    """

    stored: StoredPredictor
    names: Names
    source: Callable
    label: str
    rule: AssignmentRule
    output: str
    explain: int | None
    options: dict
    progress: Callable = silent
    note: Callable = ignore

    def __iter__(self) -> Iterator[dict]:
        with self.source() as points:
            yield from label_records(self._scored(points, None), *self._form())

    def matrix(self) -> csr_array:
        """Return the scores of the labels as a matrix, N×K; labels that are not listed are not stored."""
        K = self.stored.predictor.label_count
        with self.source() as points:
            blocks = [scores for *_, scores in self._scored(points, None)]
        return Scores.stack(blocks).matrix if blocks else csr_array((0, K))

    def write(self, out: str | os.PathLike = "-", format: str | None = None) -> None:
        """Write a file, or standard output.

        Parameters
        ----------
        out : path
            `-` for standard output; a name that ends in `.gz` is compressed.
        format : str, optional
            "scores", a scores file; "jsonl", as iterating yields; "tsv" or "csv", a table with a row for each label.
            Default: told by the ending of the name, otherwise jsonl for text and scores for numbers.

        Raises
        ------
        UsageError
            For an explanation in a scores file.
        """
        out = os.fspath(out)
        format = format or format_of(out)
        if self.explain and format == "scores":
            raise UsageError("an explanation needs the format jsonl, tsv or csv")
        with self.source() as points:
            format = format or ("jsonl" if points.is_text or self.explain else "scores")
            # The number of points comes first in a scores file.
            N = points.count() if format == "scores" or not points.is_text else None
            with open_output(out) as stream:
                scored = self._scored(points, N)
                if format == "scores":
                    write_scores(stream, N, self.stored.predictor.label_count, (scores for *_, scores in scored))
                else:
                    write_labels(stream, format, scored, *self._form())

    def _form(self):
        """Return what the functions of `label_files` need besides the scores."""
        explain = None
        if self.explain:
            explain = functools.partial(explain_labels, self.stored.predictor, self.names.features, self.explain)
        return self.names.labels, self.output, self.options["with_std"], explain

    def _scored(self, points, N):
        blocks = ((block.identifiers, block.points.features) for block in points.blocks())
        with self.progress("predict", N, " points") as bar:
            for identifiers, features, scores in predict_blocks(
                self.stored, blocks, self.rule, self.output, **self.options
            ):
                yield identifiers, features, scores
                bar.update(scores.N)
        if points.without_words:
            count = points.without_words
            documents = "1 document has" if count == 1 else f"{count} documents have"
            self.note(f"{self.label}: {documents} no word that the model knows")
