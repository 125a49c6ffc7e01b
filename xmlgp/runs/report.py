"""Make an HTML page about how a model does on test points."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import check_outputs, open_output
from xmlgp.errors import SettingsError, UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, check_count, is_path, title_of
from xmlgp.inputs.source import DenseFeatures, Labels, Points, Source
from xmlgp.inputs.unknown_labels import added_labels, note_unknown, unknown_labels
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.runs.learn import has_learned
from xmlgp.runs.matching import TrainingFacts, check_label_count, known_model, training_facts
from xmlgp.runs.trained_model import TrainedModel, opened
from xmlgp.runtime.progress import QUIET, Progress, Reporter

__all__ = ["report"]


@memory_errors_reported()
def report(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None,
    out: FilePath | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    train: Points | Source | TrainedModel | None = None,
    label_names: FilePath | Sequence[str] | None = None,
    title: str | None = None,
    neighbours: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> str:
    """Return an HTML page about how a model does on points whose labels are known, and write it if asked.

    Parameters
    ----------
    model : path or TrainedModel
    data, labels, dense, progress, note
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
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    source.check()
    check_count("neighbours", neighbours)
    model = opened(model)
    if out is not None:
        folder = model.folder and model.folder.path
        check_outputs([out], [folder, *source.inputs, train, label_names])
    K = model.data["K"]
    if K < 2:
        raise SettingsError(f"{model}: a report needs a model of two labels or more, but this one has 1 label")
    data_name = locate(os.fspath(source.data), "test") if is_path(source.data) else source.title
    chosen_names = read_label_names(label_names, K) if isinstance(label_names, str | os.PathLike) else label_names
    with open_output(out) if out is not None else contextlib.nullcontext() as stream:
        with source.stream(model.known, True, reporter) as points:
            training = _training_facts_of(model, train, source, reporter)

            def about(true_labels: csr_array) -> About:
                """Return what the page says besides scores; points may have labels that the model does not know."""
                unknown = unknown_labels(points.labels, true_labels, K)
                note_unknown(data_name, unknown, true_labels, reporter.note)
                counts = None
                propensities = None
                if training is not None and training.counts is not None:
                    counts = np.pad(training.counts, (0, true_labels.shape[1] - K))
                    propensities = _propensities(training.shape, counts, reporter.note)
                trained_on = _was_trained_on(model, source, true_labels.shape[0])
                if trained_on:
                    reporter.note(f"{model} was trained on these points, so all measures are too high")
                names = chosen_names or model.names.shown
                return About(
                    title or _name_of(model),
                    _facts_to_show(model, data_name, counts),
                    counts,
                    propensities,
                    None if names is None else [*names, *(points.labels or [])[K:]],
                    model.names.features,
                    model.block_names,
                    unknown=unknown or {},
                    trained_on=trained_on,
                )

            page = make_report(
                model.predictor,
                points.blocks(),
                about,
                tuned=model.tuned,
                neighbours=neighbours,
                seed=seed,
                progress=reporter.progress,
                note=reporter.note,
            )
        if stream:
            stream.write(page.encode())
    return page


def _name_of(model: TrainedModel) -> str:
    """Return the name of the folder of a model, or of the file of a packed one without its ending."""
    if not model.folder:
        return "Model"
    path = model.folder.path.resolve()
    # A folder may have a dot in its name.
    return path.stem if path.is_file() else path.name


def _was_trained_on(model: TrainedModel, source: Source, N: int) -> bool:
    """Return whether a model was trained on the N points of a source, or has learned them, as far as it can tell.

    Only if their number says that it may be are the points read again, all together. Standard input is read once.
    """
    if N not in [batch["N"] for batch in model.batches] or (is_path(source.data) and os.fspath(source.data) == "-"):
        return False
    points, _, _ = source.known(model.known, "test", QUIET)
    return has_learned(model, points)


def _training_facts_of(
    model: TrainedModel, train: Points | Source | TrainedModel | None, test: Source, reporter: Reporter
) -> TrainingFacts | None:
    """Return the facts of `train`, training points or another model; by default, those that `model` stores.

    Without `train`, None if the model stores no counts of labels. Training points are read as the `test` ones are.
    """
    K = model.data["K"]
    if train is not None and known_model(train) is None:
        source = train if isinstance(train, Source) else replace(test, data=train, labels=None, dense=None)
        points, _, names = source.known(model.known, "train", reporter)
        label_count = points.K - added_labels(names, model.names)
        check_label_count(title_of(source.data, "the training data"), label_count, K, str(model))
        return TrainingFacts(None, points.shape, np.bincount(points.labels.indices, minlength=K)[:K])
    facts = training_facts(model if train is None else train, True, test, reporter)
    if train is None and facts.counts is None:
        reporter.note(
            "Without training data, labels are grouped by their frequency in the test data, and there is no PSP"
        )
        return None
    name = title_of(train, "the model in `train`")
    check_label_count(name, facts.shape[2] if facts.shape else 0, K, str(model))
    if facts.names != model.names.labels:
        raise SettingsError(f"{name} has other names of labels than {model}")
    if facts.counts is None:
        raise SettingsError(f"{name} has no counts of its labels; give the training data")
    return facts


def _propensities(
    shape: tuple[int, int, int] | None, counts: NDArray[np.int64], note: Callable[[str], object]
) -> NDArray[np.floating] | None:
    """Return the propensities of the labels for training points of a shape N, D, K and with these counts.

    Return None if the shape is unknown, or, with a note, if there are too few training points.
    """
    if shape is None:
        return None
    try:
        N, D, _ = shape
        return estimate_propensities(counts, N, D).values
    except SettingsError as error:
        note(f"There is no PSP: {error}")
        return None


def _facts_to_show(model: TrainedModel, data_name: str, counts: NDArray[np.int64] | None) -> list[tuple[str, str]]:
    """Return the facts at the head of the page, pairs of a term and its value."""
    facts = [
        ("Model", f"{model} ({model.settings.model})"),
        ("Test data", "standard input" if data_name == "-" else data_name),
        ("Training documents", f"{model.data['N']:,}"),
    ]
    if counts is not None:
        facts.append(("Labels that no training document has", f"{np.count_nonzero(counts == 0):,}"))
    if model.folder:
        facts.append(("Written by", model.folder.description["written_by"]))
    return facts
