"""Make the page about a model on points whose labels are known."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

import numpy as np

from xmlgp.data.dense_files import as_list
from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import check_outputs, open_output
from xmlgp.errors import SettingsError, UsageError, memory_errors_reported
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.runs.given import (
    DenseFeatures,
    FilePath,
    Labels,
    Points,
    added_labels,
    check_count,
    check_points,
    is_path,
    known_points,
    label_of,
    note_unknown,
    open_given,
    unknown_labels,
)
from xmlgp.runs.matching import TrainingFacts, check_label_count, known_model, training_facts
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions

__all__ = ["report"]


@memory_errors_reported()
def report(
    model: FilePath | TrainedModel,
    data: Points | None,
    out: FilePath | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    train: Points | TrainedModel | None = None,
    label_names: FilePath | Sequence[str] | None = None,
    title: str | None = None,
    neighbours: int | None = None,
    seed: int = 0,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> str:
    """Return an HTML page about how a model does on points whose labels are known, and write it if asked.

    Parameters
    ----------
    model : path or TrainedModel
    data, labels, dense, corpus, cache, progress, note
        As for `train`, of the test points.
    out : path, optional
        Where to write the page; `-` for standard output.
    train : path, Dataset or TrainedModel, optional
        Training points, or another model, for the number of points with each label. Default: those that `model` knows.
    label_names : path or list of str, optional
        K names, or a file with a name a line. Default: those of the model.
    title : str, optional
    neighbours : int, optional
        The number of nearest training documents, by dense features, to show of each document, with their labels.
    seed : int
        Of the sample of documents.

    Raises
    ------
    SettingsError
        If the model has one label, the points do not fit it, no point has a true label, or the model keeps no training
        points that could be neighbours.
    """
    from xmlgp.reporting.content import About
    from xmlgp.reporting.report import check_available, make_report

    check_available()
    if out is not None and not is_path(out):
        raise UsageError("The third argument is the path of the page; give labels as labels=….")
    check_points(data, labels)
    check_count("neighbours", neighbours)
    model = opened(model)
    if out is not None:
        check_outputs([out], [model.folder and model.folder.path, data, train, label_names, *as_list(dense)])
    K = model.data["K"]
    if K < 2:
        raise SettingsError(f"{model}: a report needs a model of two labels or more, but this one has 1 label")
    name = locate(os.fspath(data), "test") if is_path(data) else label_of(data)
    names = read_label_names(label_names, K) if is_path(label_names) else label_names
    with open_output(out) if out is not None else contextlib.nullcontext() as stream:
        with open_given(data, labels, dense, model, corpus, True, note) as points:
            training = _training_facts_of(model, train, corpus, cache, progress, note)

            def about(true):
                unknown = unknown_labels(points.labels, true, K)
                note_unknown(name, unknown, true, note)
                counts = None
                if training is not None:
                    counts = np.pad(training.counts, (0, true.shape[1] - K))
                own = names or model.names.shown
                return About(
                    title or (model.folder.path.resolve().name if model.folder else "Model"),
                    _facts(model, name, counts),
                    counts,
                    None if training is None else _propensities(training.shape, counts, note),
                    own and [*own, *(points.labels or [])[K:]],
                    model.names.features,
                    model.block_names,
                    unknown=unknown or {},
                )

            blocks = ((block.points, block.texts, block.ids) for block in points.blocks())
            options = {"tuned": model.tuned, "neighbours": neighbours, "seed": seed, "progress": progress, "note": note}
            page = make_report(model.predictor, blocks, about, **options)
        if stream:
            stream.write(page.encode())
    return page


def _training_facts_of(model, train, corpus, cache, progress, note):
    """Return the `TrainingFacts` of what is given, by default of the model; None if that has no counts."""
    K = model.data["K"]
    if train is not None and known_model(train) is None:
        training, _, names = known_points(train, None, None, "train", model, corpus, cache, progress, note)
        own = training.K - added_labels(names, model.names)
        check_label_count(label_of(train, "the training data"), own, K, str(model))
        return TrainingFacts(None, training.shape, np.bincount(training.labels.indices, minlength=K)[:K])
    facts = training_facts(model if train is None else train, True, corpus, cache, progress, note)
    if train is None and facts.counts is None:
        note("Without training data, labels are grouped by their frequency in the test data, and there is no PSP")
        return None
    name = label_of(train, "the model in `train`")
    check_label_count(name, facts.shape[2], K, str(model))
    if facts.names != model.names.labels:
        raise SettingsError(f"{name} has other names of labels than {model}")
    if facts.counts is None:
        raise SettingsError(f"{name} has no counts of its labels; give the training data")
    return facts


def _propensities(shape, counts, note):
    """Return the propensities of the labels, or None if there are too few training points for them."""
    try:
        return estimate_propensities(counts, *shape[:2]).values
    except SettingsError as error:
        note(f"There is no PSP: {error}")
        return None


def _facts(model, name, counts):
    facts = [
        ("Model", f"{model} ({model.settings.model})"),
        ("Test data", "standard input" if name == "-" else name),
        ("Training documents", f"{model.data['N']:,}"),
    ]
    if counts is not None:
        facts.append(("Labels that no training document has", f"{np.count_nonzero(counts == 0):,}"))
    if model.folder:
        facts.append(("Written by", model.folder.description["written_by"]))
    return facts
