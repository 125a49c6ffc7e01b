"""Let a trained model learn or forget points: its index changes, or it is trained again on all of its points."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xmlgp.api.interrupted import readable_run
from xmlgp.api.points import FilePath
from xmlgp.api.source import Labels, Points, Source, check_width
from xmlgp.api.train import Run, train_into
from xmlgp.api.trained_model import TrainedModel, locked_model, rewritten
from xmlgp.data.dataset import Dataset, as_csr, empty_dataset, stack
from xmlgp.linear_algebra.sparse import rows_replaced
from xmlgp.metrics.ranking import points_of
from xmlgp.model_folder.kept_points import arrays_of_points, kept_points
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.labels import renamed_labels
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import Vocabulary, name_labels

__all__ = ["learn"]

#: A new label should be among so many suggestions for its own document.
SUGGESTED = 5


def learn(
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    retrain: bool = False,
    forget: bool = False,
    rename: Mapping[str, str] | None = None,
    reporter: Reporter = QUIET,
) -> TrainedModel:
    """Let a model learn new points, which may have new features and labels; return the new model.

    They join the index of a model that has one at once. Other models are trained again, with their settings, on the
    points that they keep and the new ones. A document replaces those with the same words that a model of text keeps.

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
    forget : bool
        Whether the model forgets points with the features of these in place of learning them.
    rename : mapping of str to str, optional
        Without data, new names of labels. A name that another label has makes both one, and trains the model again.

    Raises
    ------
    SettingsError
        If a model to be trained again, or to forget points, keeps none, or the new ones have fewer features or labels
        than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    source = Source.of(data, labels)
    if source.data is None and (forget or not (source.vocabulary or retrain or rename)):
        raise UsageError("Nothing to learn or forget: give data, a vocabulary, --rename or --retrain.")
    if rename and (source.data is not None or source.vocabulary):
        raise UsageError("Labels are renamed without data and a vocabulary; learn these before or after it.")
    concepts = source.read_vocabulary()
    with locked_model(model) as trained:
        if rename:
            return _renamed(trained, rename, retrain, reporter)
        if source.data is None:
            return _with_names(trained, name_labels(trained.names, concepts, reporter.note), retrain, reporter)
        signature = replace(trained, names=name_labels(trained.names, concepts)).signature
        points, _, names = source.read(signature, reporter=reporter)
        points = replace(points, first_feature=signature.first_feature)
        check_width(points.features.width, signature.E, source.data)
        if forget:
            return _without(trained, points, retrain, reporter)
        return _with_points(trained, points, names, concepts, retrain, reporter)


def _with_points(
    model: TrainedModel, points: Dataset, names: Names, concepts: Vocabulary | None, retrain: bool, reporter: Reporter
) -> TrainedModel:
    """Return a model, which may be in a locked folder, that has learned points; `names` are of all words and labels."""
    kept = kept_points(str(model), model.points, model.data, points.D, points.K)
    rows = np.arange(model.data["N"] + points.N)
    if kept and model.names.vectorizer:
        rows = rows_replaced(kept.features.sparse, points.features.sparse)
    everything = stack([kept, points]).rows(rows) if kept else None
    if not points.N or _is_known(model, points, kept, everything):
        reason = "the model has learned these points already" if points.N else "there are no points"
        reporter.note(f"{model}: {reason}{'' if retrain else '; nothing to do'}")
        return _with_names(model, model.names, retrain, reporter)
    names = name_labels(names, concepts, reporter.note, model.names)._replace(texts=model.names.texts)
    changed = replace(model, names=names, learned=[*model.batches, points.facts])
    replaced = model.data["N"] + points.N - len(rows)
    what = f"{counted(points.N, 'point')}{f', in place of {replaced} with the same words' if replaced else ''}"
    return _take_up(model, changed, points, everything, rows, f"learned {what}", retrain, reporter)


def _take_up(
    before: TrainedModel,
    model: TrainedModel,
    points: Dataset,
    everything: Dataset | None,
    rows: NDArray[np.integer],
    done: str,
    retrain: bool,
    reporter: Reporter,
) -> TrainedModel:
    """Return a model to which points have come, perhaps none, and which has `rows` of all; see `_joined`."""
    joined = None if retrain else _joined(model, points, everything, rows)
    if joined is None:
        return _train_again(model, everything or _points_of(before), reporter)
    missed = _labels_missed(joined, points, before.data["K"])
    if missed:
        labels = counted(len(missed), "new label is", "new labels are")
        reporter.note(
            f"Warning: {model}: {done.replace('learned', 'took in')}; {len(rows)} in all, but {labels} not among the "
            f"first {SUGGESTED} suggestions for a document that has it, such as {excerpt(missed[0])}; learn more "
            "documents with it"
        )
    else:
        reporter.note(f"{model}: {done}; {len(rows)} in all")
    return rewritten(before, joined)


def _is_known(model: TrainedModel, points: Dataset, kept: Dataset | None, everything: Dataset | None) -> bool:
    """Return whether a model has learned points, and none of them has been replaced since."""
    is_known = points.fingerprint in {batch["fingerprint"] for batch in model.batches}
    return is_known and not (kept and everything and everything.rows(slice(kept.N)).fingerprint != kept.fingerprint)


def _labels_missed(model: TrainedModel, points: Dataset, earlier: int) -> list[str | int]:
    """Return which labels after the `earlier` ones are not among the first suggestions for a document that has them."""
    labels, places = np.unique(points.labels.indices, return_index=True)
    places = places[labels >= earlier]
    if not len(places):
        return []
    names = model.names.labels or range(points.K)
    suggested = model.predictor.top(points.features[points_of(points.labels)[places]], SUGGESTED, "probability")
    found = np.concatenate([part.labels.reshape(part.N, -1) for part in suggested])
    return [names[k] for k, best in zip(points.labels.indices[places], found, strict=True) if k not in best]


def _without(model: TrainedModel, points: Dataset, retrain: bool, reporter: Reporter) -> TrainedModel:
    """Return a model that forgets points, which may be in a locked folder."""
    kept = _points_of(model)
    rows = rows_replaced(kept.features.sparse, points.features.sparse)
    rows = rows[rows < kept.N]
    if len(rows) in (0, kept.N):
        raise SettingsError(f"{model} has none of these points, or no others, so it stays as it is")
    none = empty_dataset(kept.D, kept.K, kept.features.width)
    done = f"forgot {counted(kept.N - len(rows), 'point')}"
    # What it had learned may be learned again.
    return _take_up(model, replace(model, learned=[]), none, kept.rows(rows), rows, done, retrain, reporter)


def _points_of(model: TrainedModel) -> Dataset:
    """Return the points that a model keeps; SettingsError if it keeps none."""
    kept = kept_points(str(model), model.points, model.data)
    if kept is None:
        raise SettingsError(f"{model} keeps no training points; train again on all points together")
    return kept


def _renamed(model: TrainedModel, changes: Mapping[str, str], retrain: bool, reporter: Reporter) -> TrainedModel:
    """Return a model, which may be in a locked folder, with other names of labels; equal names are one label."""
    earlier = model.names.labels
    if earlier is None or model.names.preferred or model.names.texts:
        raise SettingsError(f"{model}: labels without names, or with those of a vocabulary or texts, are not renamed")
    labels, numbers = renamed_labels(earlier, changes)
    names = model.names._replace(labels=labels)
    if len(labels) == len(earlier):
        renamed = _with_names(model, names, retrain, reporter)
    else:
        kept = _points_of(model)
        merged = as_csr(None, numbers[kept.labels.indices], kept.labels.indptr, len(labels))
        merged.sum_duplicates()
        renamed = _train_again(replace(model, names=names, learned=[]), replace(kept, labels=merged), reporter)
    reporter.note(f"{model}: renamed {counted(len(changes), 'label')}; {len(labels)} in all")
    return renamed


def _joined(
    model: TrainedModel, points: Dataset, everything: Dataset | None, rows: NDArray[np.integer]
) -> TrainedModel | None:
    """Return a model whose index new points have joined, with `rows` of all; None if it has no index."""
    found = MODELS[model.settings.model].join(model.settings, model.preprocessed, model.parameters, points, rows)
    if found is None:
        return None
    # That of all points would take longer than the rest.
    fingerprint = hashlib.sha256((model.data["fingerprint"] + points.fingerprint).encode()).hexdigest()
    data = points.facts | {"N": len(rows), "fingerprint": fingerprint}
    preprocessed, parameters = found
    kept = arrays_of_points(everything) if everything else {}
    return replace(model, data=data, preprocessed=preprocessed, parameters=parameters, points=kept)


def _train_again(model: TrainedModel, points: Dataset, reporter: Reporter) -> TrainedModel:
    """Return the model that is trained on all points, and replaces the one in its locked folder."""
    facts = {"learned": model.learned, "classes": model.classes}
    run = Run(points, model.names, model.settings, reporter, texts=model.numbered_texts, facts=facts)
    with reporter.progress("training"):
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
        return _train_again(changed, _points_of(model), reporter)
    return model if names == model.names else rewritten(model, changed)
