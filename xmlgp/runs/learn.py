"""Let a trained model learn more points: train it again on the points that it keeps and the new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xmlgp.data.dataset import Dataset, check_sizes, stack, widened
from xmlgp.errors import ModelFolderError, SettingsError, UsageError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.source import DenseFeatures, Labels, Points, Source, check_width
from xmlgp.model_folder.arrays import remove
from xmlgp.runs.interrupted import readable_run
from xmlgp.runs.kept_points import points_from
from xmlgp.runs.requests import Request
from xmlgp.runs.train import CHECKPOINT_SECONDS, FolderTraining, train_in_memory
from xmlgp.runs.trained_model import TrainedModel, held, write_model
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary
from xmlgp.work import THIS_MACHINE

__all__ = ["has_learned", "learn"]


@memory_errors_reported()
def learn(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> TrainedModel:
    """Train a model again, with its settings, on the points that it keeps and on new ones; return the new model.

    The result is that of training on all of these points at once. An interrupted run resumes if the same points are
    learned again.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced at the end, and stays as it is if anything fails; one in memory stays unchanged.
    data, labels, dense, progress, note
        As for `train`, of new points only, which may have new features and labels. Points that the model has learned
        already are skipped, with a note.
    vocabulary, vocabulary_language
        As for `train`; labels that are not in it keep their earlier preferred labels. It needs no data.

    Raises
    ------
    SettingsError
        If the model keeps no points, or the new ones have fewer features or labels than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    if source.data is None and vocabulary is None:
        raise UsageError("Nothing to learn: give data.")
    concepts = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    with held(model) as trained:
        if source.data is None:
            return _renamed(trained, name_labels(trained.names, concepts, reporter.note))
        earlier = _kept_points(trained)
        known = replace(trained, names=name_labels(trained.names, concepts)).known
        points, _, names = source.more(known, reporter)
        check_sizes(points, known.D, known.K)
        check_width(points.features.width, known.E, source.data)
        if not points.N or has_learned(trained, points):
            reason = "the model has learned these points already" if points.N else "there are no points"
            reporter.note(f"{trained}: {reason}; nothing to do")
            _remove_finished_run(trained)
            return trained
        names = name_labels(names, concepts, reporter.note, trained.names)
        batches = [*trained.batches, points.facts]
        return _train_again(trained, stack([_widened(earlier, points), points]), names, batches, reporter)


def has_learned(model: TrainedModel, points: Dataset) -> bool:
    """Return whether a model was trained on all of these points together, or has learned them so."""
    # A fingerprint depends on the numbers of features and labels that the points had then.
    return any(
        batch["N"] == points.N and _fingerprint(points, batch["D"], batch["K"]) == batch["fingerprint"]
        for batch in model.batches
    )


def _fingerprint(points: Dataset, D: int, K: int) -> str | None:
    """Return the fingerprint of points with D features and K labels, or None if they have more."""
    X = points.features.sparse
    if X.indices.max(initial=-1) >= D or points.labels.indices.max(initial=-1) >= K:
        return None
    return Dataset(points.features.with_sparse(widened(X, D)), widened(points.labels, K)).fingerprint


def _kept_points(model: TrainedModel) -> Dataset:
    if not model.points:
        raise SettingsError(f"{model} keeps no training points; train again on all points together")
    points = points_from(model.points, model.data)
    if points is None:
        raise ModelFolderError(f"{model}: the model is damaged, its training points do not fit it")
    return points


def _widened(points: Dataset, wider: Dataset) -> Dataset:
    """Return points with as many features and labels as others have."""
    X = widened(points.features.sparse, wider.D)
    return Dataset(points.features.with_sparse(X), widened(points.labels, wider.K))


def _train_again(
    model: TrainedModel, points: Dataset, names: Names, batches: list[dict[str, Any]], reporter: Reporter
) -> TrainedModel:
    """Return the model that is trained on all points, and replaces the one in its locked folder."""
    facts: dict[str, Any] = {"learned": batches, "classes": model.classes}
    if model.folder is None:
        trained = train_in_memory(points, model.settings, names, reporter.progress, THIS_MACHINE, keep_points=True)
        return replace(trained, **facts)
    path = model.folder.path
    training = FolderTraining(path, points, names, CHECKPOINT_SECONDS, reporter, THIS_MACHINE, facts=facts)
    run = readable_run(path)
    sizes = [counted(points.shape[i], noun) for i, noun in enumerate(("point", "feature", "label"))]
    training.note(f"training again on all {sizes[0]}, with {sizes[1]} and {sizes[2]}")
    # A run on other points is discarded: the model keeps what it had learned, and new points are still elsewhere.
    is_same = run is not None and run.difference(points.facts, model.settings) is None
    return training.run(Request(model.settings), resume=is_same, overwrite=True)


def _remove_finished_run(model: TrainedModel) -> None:
    """Remove the checkpoint of a run that was interrupted after it had replaced the model."""
    run = model.folder and readable_run(model.folder.path)
    if run and run.data == model.data:
        remove([run.checkpoint.path], ())


def _renamed(model: TrainedModel, names: Names) -> TrainedModel:
    """Return a model, which may be in a locked folder, with other names."""
    if (names.uris, names.preferred) == (model.names.uris, model.names.preferred):
        return model
    before = model.folder
    model = replace(model, names=names)
    if before is None:
        return model
    description = before.description
    keep = {name: entry for name, entry in description["arrays"].items() if not name.startswith("names.")}
    facts = {"workers": description["workers"]} if "workers" in description else {}
    return replace(model, folder=write_model(model, before.path, keep, **facts))
