"""Let a trained model learn more points: they join its index, or it is trained again on all of its points."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from xmlgp.api.interrupted import readable_run
from xmlgp.api.kept_points import arrays_of_points, points_from
from xmlgp.api.points import FilePath
from xmlgp.api.source import Labels, Points, Source, check_width
from xmlgp.api.train import Run, train_into
from xmlgp.api.trained_model import TrainedModel, locked_model, rewritten
from xmlgp.data.dataset import Dataset, stack, widen
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import ModelFolderError, SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels

__all__ = ["learn"]


def learn(
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    retrain: bool = False,
    reporter: Reporter = QUIET,
) -> TrainedModel:
    """Let a model learn new points, which may have new features and labels; return the new model.

    They join the index of a model that has one at once. Other models are trained again, with their settings, on the
    points that they keep and the new ones.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced at the end, and stays as it is if anything fails; one in memory stays unchanged.
    data, labels, reporter
        As for `train`, of new points only. Points that the model has learned already are skipped, with a note. A
        `Source` that has only a vocabulary names the labels anew; labels that are not in it keep their earlier
        preferred labels.
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
    source = Source.of(data, labels)
    if source.data is None and source.vocabulary is None and not retrain:
        raise UsageError("Nothing to learn: give data, a vocabulary, or --retrain.")
    concepts = source.read_vocabulary()
    with locked_model(model) as trained:
        if source.data is None:
            return _with_names(trained, name_labels(trained.names, concepts, reporter.note), retrain, reporter)
        signature = replace(trained, names=name_labels(trained.names, concepts)).signature
        points, _, names = source.read(signature, reporter=reporter)
        points = replace(points, first_feature=signature.first_feature)
        check_width(points.features.width, signature.E, source.data)
        if not points.N or points.fingerprint in {batch["fingerprint"] for batch in trained.batches}:
            reason = "the model has learned these points already" if points.N else "there are no points"
            reporter.note(f"{trained}: {reason}{'' if retrain else '; nothing to do'}")
            return _with_names(trained, trained.names, retrain, reporter)
        names = name_labels(names, concepts, reporter.note, trained.names)._replace(texts=trained.names.texts)
        kept = _kept_points(trained, points.D, points.K)
        everything = stack([kept, points]) if kept else None
        changed = replace(trained, names=names, learned=[*trained.batches, points.facts])
        if not retrain and (joined := _joined(changed, points, everything)):
            reporter.note(f"{trained}: learned {counted(points.N, 'point')}; {joined.data['N']} in all")
            return rewritten(trained, joined)
        return _train_again(changed, everything, reporter)


def _kept_points(model: TrainedModel, D: int, K: int) -> Dataset | None:
    """Return the points that a model keeps, with D features and K labels; None if it keeps none."""
    if not model.points:
        return None
    points = points_from(model.points, model.data)
    if points is None:
        raise ModelFolderError(f"{model}: the model is damaged, its training points do not fit it")
    X = widen(points.features.sparse, D)
    return replace(points, features=points.features.with_sparse(X), labels=widen(points.labels, K))


def _joined(model: TrainedModel, points: Dataset, everything: Dataset | None) -> TrainedModel | None:
    """Return a model whose index new points have joined; None if it has no index."""
    found = MODELS[model.settings.model].join(model.settings, model.preprocessed, model.parameters, points)
    if found is None:
        return None
    # That of all points would take longer than the rest.
    fingerprint = hashlib.sha256((model.data["fingerprint"] + points.fingerprint).encode()).hexdigest()
    data = points.facts | {"N": model.data["N"] + points.N, "fingerprint": fingerprint}
    preprocessed, parameters = found
    kept = arrays_of_points(everything) if everything else {}
    return replace(model, data=data, preprocessed=preprocessed, parameters=parameters, points=kept)


def _train_again(model: TrainedModel, points: Dataset | None, reporter: Reporter) -> TrainedModel:
    """Return the model that is trained on all points, and replaces the one in its locked folder."""
    if points is None:
        raise SettingsError(f"{model} keeps no training points; train again on all points together")
    facts = {"learned": model.learned, "classes": model.classes}
    run = Run(points, model.names, model.settings, reporter, texts=model.numbered_texts, facts=facts)
    if model.folder is None:
        return run.train(run.preprocess())
    path = model.folder.path
    run = replace(run, reporter=reporter.about(path))
    run.reporter.note(f"training again on {counted(points.N, 'point')}")
    # A run on other points is discarded: the model keeps what it had learned, and new points are still elsewhere.
    interrupted = readable_run(path)
    is_same = interrupted is not None and interrupted.difference(run.identity, run.settings) is None
    return train_into(path, run, resume=is_same, overwrite=True)


def _with_names(model: TrainedModel, names: Names, retrain: bool, reporter: Reporter) -> TrainedModel:
    """Return a model, which may be in a locked folder, with other names, perhaps trained again."""
    changed = replace(model, names=names)
    if retrain:
        return _train_again(changed, _kept_points(model, model.data["D"], model.data["K"]), reporter)
    return model if names == model.names else rewritten(model, changed)
