"""Let a trained model learn more points: they join its index, or it is trained again on all of its points."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xmlgp.api.interrupted import readable_run
from xmlgp.api.kept_points import points_from, with_more
from xmlgp.api.points import FilePath
from xmlgp.api.requests import Request
from xmlgp.api.source import DenseFeatures, Labels, Points, Source, check_width
from xmlgp.api.train import CHECKPOINT_SECONDS, FolderTraining, train_in_memory
from xmlgp.api.trained_model import TrainedModel, held, rewritten
from xmlgp.data.dataset import Dataset, check_sizes, stack, widened
from xmlgp.model_folder.arrays import remove
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import ModelFolderError, SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.runtime.work import THIS_MACHINE
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary

__all__ = ["has_learned", "learn"]


def learn(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    retrain: bool = False,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> TrainedModel:
    """Let a model learn new points, which may have new features and labels; return the new model.

    They join the index of a model that has one at once. Other models are trained again, with their settings, on the
    points that they keep and the new ones.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced at the end, and stays as it is if anything fails; one in memory stays unchanged.
    data, labels, dense, progress, note
        As for `train`, of new points only. Points that the model has learned already are skipped, with a note.
    vocabulary, vocabulary_language
        As for `train`; labels that are not in it keep their earlier preferred labels. It needs no data.
    retrain : bool
        Whether to train any model again; it needs no data. The result is that of training on all points at once. An
        interrupted run resumes if the same points are learned again.

    Raises
    ------
    SettingsError
        If a model to be trained again keeps no points, or the new ones have fewer features or labels than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    if source.data is None and vocabulary is None and not retrain:
        raise UsageError("Nothing to learn: give data, a vocabulary, or --retrain.")
    concepts = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    with held(model) as trained:
        if source.data is None:
            return _with_names(trained, name_labels(trained.names, concepts, reporter.note), retrain, reporter)
        signature = replace(trained, names=name_labels(trained.names, concepts)).signature
        points, _, names = source.read(signature, reporter=reporter)
        check_sizes(points, signature.D, signature.K)
        check_width(points.features.width, signature.E, source.data)
        if not points.N or has_learned(trained, points):
            reason = "the model has learned these points already" if points.N else "there are no points"
            reporter.note(f"{trained}: {reason}{'' if retrain else '; nothing to do'}")
            _remove_finished_run(trained)
            return _with_names(trained, trained.names, retrain, reporter)
        names = name_labels(names, concepts, reporter.note, trained.names)._replace(texts=trained.names.texts)
        batches = [*trained.batches, _used(points).facts]
        joined = None if retrain else _joined(trained, points, names, batches)
        if joined is not None:
            reporter.note(f"{joined}: learned {counted(points.N, 'point')}; {joined.data['N']} in all")
            return joined
        earlier = _kept_points(trained)
        return _train_again(trained, stack([_sized(earlier, points.D, points.K), points]), names, batches, reporter)


def has_learned(model: TrainedModel, points: Dataset) -> bool:
    """Return whether a model was trained on all of these points together, or has learned them so."""
    first, *later = model.batches
    used = _used(points)
    if used.facts in later:
        return True
    # A fingerprint depends on the numbers of features and labels.
    D, K = first["D"], first["K"]
    return first["N"] == points.N and used.D <= D and used.K <= K and _sized(points, D, K).facts == first


def _used(points: Dataset) -> Dataset:
    """Return points without the features and labels after the last ones that they have."""
    matrices = points.features.sparse, points.labels
    return _sized(points, *(int(matrix.indices.max(initial=-1)) + 1 for matrix in matrices))


def _kept_points(model: TrainedModel) -> Dataset:
    if not model.points:
        raise SettingsError(f"{model} keeps no training points; train again on all points together")
    points = points_from(model.points, model.data)
    if points is None:
        raise _damaged(model)
    return points


def _damaged(model: TrainedModel) -> ModelFolderError:
    return ModelFolderError(f"{model}: the model is damaged, its training points do not fit it")


def _sized(points: Dataset, D: int, K: int) -> Dataset:
    """Return points with D features and K labels."""
    X = widened(points.features.sparse, D)
    return Dataset(points.features.with_sparse(X), widened(points.labels, K))


def _joined(model: TrainedModel, points: Dataset, names: Names, batches: list[dict[str, Any]]) -> TrainedModel | None:
    """Return the model, which may be in a locked folder, whose index new points have joined; None without an index."""
    found = MODELS[model.settings.model].join(model.settings, model.preprocessed, model.parameters, points)
    if found is None:
        return None
    kept = with_more(model.points, points) if model.points else {}
    if kept is None:
        raise _damaged(model)
    # That of all points would take longer than the rest.
    fingerprint = hashlib.sha256((model.data["fingerprint"] + points.fingerprint).encode()).hexdigest()
    data = points.facts | {"N": model.data["N"] + points.N, "fingerprint": fingerprint}
    preprocessed, parameters = found
    return rewritten(
        model,
        replace(
            model,
            data=data,
            preprocessed=preprocessed,
            parameters=parameters,
            names=names,
            learned=batches,
            points=kept,
        ),
    )


def _train_again(
    model: TrainedModel, points: Dataset, names: Names, batches: list[dict[str, Any]], reporter: Reporter
) -> TrainedModel:
    """Return the model that is trained on all points, and replaces the one in its locked folder."""
    facts: dict[str, Any] = {"learned": batches, "classes": model.classes}
    texts = model.numbered_texts
    if model.folder is None:
        trained = train_in_memory(
            points, model.settings, names, reporter.progress, THIS_MACHINE, keep_points=True, texts=texts
        )
        return replace(trained, **facts)
    path = model.folder.path
    training = FolderTraining(path, points, names, CHECKPOINT_SECONDS, reporter, THIS_MACHINE, facts=facts, texts=texts)
    run = readable_run(path)
    sizes = [counted(points.shape[i], noun) for i, noun in enumerate(("point", "feature", "label"))]
    training.note(f"training again on all {sizes[0]}, with {sizes[1]} and {sizes[2]}")
    # A run on other points is discarded: the model keeps what it had learned, and new points are still elsewhere.
    is_same = run is not None and run.difference(training.identity, model.settings) is None
    return training.run(Request(model.settings), resume=is_same, overwrite=True)


def _remove_finished_run(model: TrainedModel) -> None:
    """Remove the checkpoint of a run that was interrupted after it had replaced the model."""
    run = model.folder and readable_run(model.folder.path)
    if run and run.data == model.data:
        remove([run.checkpoint.path], ())


def _with_names(model: TrainedModel, names: Names, retrain: bool, reporter: Reporter) -> TrainedModel:
    """Return a model, which may be in a locked folder, with other names, perhaps trained again."""
    if retrain:
        return _train_again(model, _kept_points(model), names, model.learned, reporter)
    return model if names == model.names else rewritten(model, replace(model, names=names))
