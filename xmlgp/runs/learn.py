"""Let a trained model learn more points; a model in a folder is replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from xmlgp.data.dataset import Dataset, as_csr, check_sizes, no_points
from xmlgp.errors import SettingsError, UsageError
from xmlgp.model import counted
from xmlgp.model_folder.arrays import remove
from xmlgp.models import MODELS
from xmlgp.preprocess.pipeline import check_magnitudes, grow
from xmlgp.preprocess.weighting import sizes_of
from xmlgp.runs.given import FilePath, Labels, Points, more_labels, more_points
from xmlgp.runs.interrupted import (
    CHECKPOINT,
    InterruptedRun,
    describe_run,
    readable_run,
    resume_or_discard,
    what_is_left,
)
from xmlgp.runs.train import CHECKPOINT_SECONDS
from xmlgp.runs.trained_model import TrainedModel, held, load, write_model
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.trained import STATISTICS, Earlier, add_statistics, statistics_of

__all__ = ["has_learned", "learn", "learn_points"]


def learn(
    model: FilePath | TrainedModel,
    data: Points | None = None,
    *,
    labels: Labels | None = None,
    add_labels: FilePath | Sequence[str] | None = None,
    resume: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> TrainedModel:
    """Let a trained model learn more points, with its posterior as the prior.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced at the end; a model in memory stays unchanged.
    data, labels, checkpoint_seconds, corpus, cache, progress, note
        As for `train`, of new points only, which may have new features and labels. A model in a folder skips points
        that it has learned already.
    add_labels : path or list of str, optional
        Names of labels to add, or a file with one name per line.
    resume : bool, optional
        False discards an interrupted run. True and None resume one on the same points; None also discards a run on
        other points that took less than a minute.

    Raises
    ------
    SettingsError
        If the model cannot learn more points, or they have fewer features or labels than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    if data is None and add_labels is None:
        raise UsageError("Nothing to learn: give data, or labels to add.")
    with held(model) as trained:
        kind = trained.settings.model
        if MODELS[kind].learn is None:
            able = " and ".join(name for name, other in MODELS.items() if other.learn)
            raise SettingsError(
                f"a model of {kind} cannot learn on, only {able} can; train again on all points together"
            )
        D, K, names = trained.data["D"], trained.data["K"], trained.names
        if add_labels is not None:
            names, K = more_labels(names, K, add_labels)
            if data is None and trained.data["K"] == K:
                note(f"{model}: the model has these labels already; nothing to do")
                return trained
        points = no_points(D, K)
        if data is not None:
            points, names = more_points(data, labels, trained, names, corpus, cache, progress, note)
        if trained.folder is None:
            return replace(learn_points(trained, points, progress), names=names)
        path = trained.folder.path
        _learn_into_folder(trained, points, names, progress, resume, checkpoint_seconds, note)
    return load(path)


def learn_points(model, dataset, progress=silent, checkpoints=None):
    """Return the `TrainedModel`, in memory, that has also learned the points of a `Dataset`, which may be empty.

    Its `data` describes all points so far; in it, `first` is the fingerprint of the points of `train`.
    """
    settings, data = model.settings, model.data
    check_sizes(dataset, data["D"], data["K"])
    counts = add_statistics(model.parameters, statistics_of(dataset.features, dataset.labels))
    preprocessed = grow(model.preprocessed, settings, data["N"] + dataset.N, counts[STATISTICS[1]])
    check_magnitudes([sizes_of(preprocessed.weigh(dataset.features))], "train again with another weighting")
    earlier = Earlier(settings, model.preprocessed, model.parameters, *(data[name] for name in "NDK"))
    learn = MODELS[settings.model].learn
    result = learn(earlier, dataset.features, dataset.labels, preprocessed, progress, checkpoints)
    N, D, K = dataset.shape
    batch = {"N": N, "D": D - data["D"], "K": K - data["K"]}
    batch |= {"fingerprint": dataset.fingerprint, "history": result.history}
    facts = dict(data) | {"N": data["N"] + N, "D": D, "K": K}
    if dataset.N:
        fingerprint = hashlib.sha256(f"{data['fingerprint']} {dataset.fingerprint}".encode()).hexdigest()
        facts = {"first": data["fingerprint"]} | facts | {"fingerprint": fingerprint}
    changed = {"data": facts, "preprocessed": preprocessed, "parameters": result.parameters | counts}
    return replace(model, **changed, learned=[*model.learned, batch], folder=None)


def _learn_into_folder(model, dataset, names, progress, resume, checkpoint_seconds, note):
    """Update the model in a locked folder; do nothing if it has learned the points already."""
    path, data, began = model.folder.path, model.data, time.perf_counter()
    checkpoint_file = path / CHECKPOINT

    def note_here(text):
        note(f"{path}: {text}")

    if has_learned(model, dataset):
        note_here("the model has learned these points already; nothing to do")
        run = readable_run(path)
        if run and run.learns and run.data.get("fingerprint") == dataset.fingerprint:
            # The run ended after it wrote the model, before it removed the checkpoint.
            remove([checkpoint_file], ())
        label_count = len(names.labels or ())
        if label_count <= data["K"]:
            return
        # The call also adds names of labels.
        dataset = no_points(data["D"], label_count)
    elif not dataset.N and dataset.shape[1:] == (data["D"], data["K"]):
        note_here("there are no points; nothing to do")
        return
    facts = dataset.facts | {"learns_on": data["fingerprint"]}
    run = None if resume is False else InterruptedRun.read(path)
    run, _ = resume_or_discard(path, run, facts, model.settings, resume, note_here)
    checkpoint, writer = run and run.checkpoint, None
    if checkpoint_seconds or checkpoint:
        described = describe_run(facts, model.settings, {})
        writer = CheckpointWriter(checkpoint_file, described, checkpoint_seconds, checkpoint)
    with what_is_left(path, note_here):
        try:
            grown = replace(learn_points(model, dataset, progress, writer), names=names)
            entries = model.folder.entries("parameters.")
            unchanged = (name for name, value in grown.parameters.items() if value is model.parameters.get(name))
            write_model(grown, path, {f"parameters.{name}": entries[f"parameters.{name}"] for name in unchanged})
        except Exception:
            if writer and not writer.has_state:
                remove([checkpoint_file], ())
            raise
    remove([checkpoint_file], ())
    batch = MODELS[model.settings.model].describe_batch(grown.learned[-1])
    note_here(f"learned {batch}, in {time.perf_counter() - began:.1f} s")
    sizes = [counted(grown.data[key], noun) for key, noun in (("N", "point"), ("D", "feature"), ("K", "label"))]
    note_here(f"knows {sizes[0]}, {sizes[1]} and {sizes[2]}")
    if model.tuned:
        note_here("the tuned threshold is unchanged; `xmlgp tune` chooses a new one")


def has_learned(model, dataset):
    """Return whether a model was trained on these points, or has learned them, perhaps with fewer features and labels.

    No points are never known.
    """
    if not dataset.N:
        return False
    data, learned = model.data, model.learned
    of_training = {"N": data["N"] - sum(batch["N"] for batch in learned), "D": 0, "K": 0}
    of_training["fingerprint"] = data.get("first", data["fingerprint"])
    D, K = data["D"], data["K"]
    # A fingerprint depends on the numbers of features and labels that the points had then.
    for batch in [*reversed(learned), of_training]:
        if batch["N"] == dataset.N and _fingerprint(dataset, D, K) == batch["fingerprint"]:
            return True
        D, K = D - batch["D"], K - batch["K"]
    return False


def _fingerprint(dataset, D, K):
    """Return the fingerprint of points with D features and K labels, or None if they have more."""
    parts = []
    for matrix, count in (dataset.features, D), (dataset.labels, K):
        if matrix.indices.max(initial=-1) >= count:
            return None
        parts.append(as_csr(matrix.data, matrix.indices, matrix.indptr, count))
    return Dataset(*parts).fingerprint
