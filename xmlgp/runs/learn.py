"""Learn on: go on with a trained model; one in a folder is replaced as a whole or not at all."""

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

__all__ = ["learn", "learn_points"]


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
    """Go on with a trained model: learn more points, with what the model knows as the prior.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced when all is learned; one in memory stays as it is.
    data, labels, checkpoint_seconds, corpus, cache, progress, note
        As for `train`, of new points only; they may have more features and labels. Points that a folder has learned
        already are not learned twice.
    add_labels : path or list of str, optional
        Names of labels to add: a file with a name a line, or the names.
    resume : bool, optional
        False: discard an interrupted run. Otherwise resume it if it was on the same points; another one is discarded if
        it took less than a minute and `resume` is None.

    Raises
    ------
    SettingsError
        If the model cannot learn on, or the points have fewer features or labels than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    if data is None and add_labels is None:
        raise UsageError("Nothing to learn: give data, or labels to add.")
    with held(model) as known:
        kind = known.settings.model
        if MODELS[kind].learn is None:
            able = " and ".join(name for name, other in MODELS.items() if other.learn)
            raise SettingsError(
                f"a model of {kind} cannot learn on, only {able} can; train again on all points together"
            )
        D, K, names = known.data["D"], known.data["K"], known.names
        if add_labels is not None:
            names, K = more_labels(names, K, add_labels)
            if data is None and known.data["K"] == K:
                note(f"{model}: the model has these labels already; nothing to do")
                return known
        points = no_points(D, K)
        if data is not None:
            points, names = more_points(data, labels, known, names, corpus, cache, progress, note)
        if known.folder is None:
            return replace(learn_points(known, points, progress), names=names)
        path = known.folder.path
        _learn_into_folder(known, points, names, progress, resume, checkpoint_seconds, note)
    return load(path)


def learn_points(model, dataset, progress=silent, checkpoints=None):
    """Return a `TrainedModel` in memory after more points (`Dataset`), of which there may be none.

    Its `data` are facts of all points so far, and in `first` the fingerprint of those that the model was trained on.
    """
    settings, data = model.settings, model.data
    check_sizes(dataset, data["D"], data["K"])
    counts = add_statistics(model.parameters, statistics_of(dataset.features, dataset.labels))
    grown = grow(model.preprocessed, settings, data["N"] + dataset.N, counts[STATISTICS[1]])
    check_magnitudes([sizes_of(grown.weigh(dataset.features))], "train again with another weighting")
    earlier = Earlier(settings, model.preprocessed, model.parameters, *(data[name] for name in "NDK"))
    learn = MODELS[settings.model].learn
    trained = learn(earlier, dataset.features, dataset.labels, grown, progress, checkpoints)
    N, D, K = dataset.shape
    batch = {"N": N, "D": D - data["D"], "K": K - data["K"]}
    batch |= {"fingerprint": dataset.fingerprint, "history": trained.history}
    facts = dict(data) | {"N": data["N"] + N, "D": D, "K": K}
    if dataset.N:
        chain = hashlib.sha256(f"{data['fingerprint']} {dataset.fingerprint}".encode()).hexdigest()
        facts = {"first": data["fingerprint"]} | facts | {"fingerprint": chain}
    changed = {"data": facts, "preprocessed": grown, "parameters": trained.parameters | counts}
    return replace(model, **changed, learned=[*model.learned, batch], folder=None)


def _learn_into_folder(model, dataset, names, progress, resume, checkpoint_seconds, note):
    """Go on with the model in a locked folder, or do nothing if it has learned the points."""
    path, data, began = model.folder.path, model.data, time.perf_counter()
    checkpoint_file = path / CHECKPOINT

    def note_here(text):
        note(f"{path}: {text}")

    if dataset.N and _has_learned(model, dataset):
        note_here("the model has learned these points already; nothing to do")
        run = readable_run(path)
        if run and run.learns and run.data.get("fingerprint") == dataset.fingerprint:
            # It ended between writing the model and removing this.
            remove([checkpoint_file], ())
        more = len(names.labels or ())
        if more <= data["K"]:
            return
        # Names were added at the same time.
        dataset = no_points(data["D"], more)
    elif not dataset.N and dataset.shape[1:] == (data["D"], data["K"]):
        note_here("there are no points; nothing to do")
        return
    about = dataset.facts | {"learns_on": data["fingerprint"]}
    run = None if resume is False else InterruptedRun.read(path)
    run, _ = resume_or_discard(path, run, about, model.settings, resume, note_here)
    checkpoint, checkpoints = run and run.checkpoint, None
    if checkpoint_seconds or checkpoint:
        described = describe_run(about, model.settings, {})
        checkpoints = CheckpointWriter(checkpoint_file, described, checkpoint_seconds, checkpoint)
    with what_is_left(path, note_here):
        try:
            grown = replace(learn_points(model, dataset, progress, checkpoints), names=names)
            entries = model.folder.entries("parameters.")
            unchanged = (name for name, value in grown.parameters.items() if value is model.parameters.get(name))
            write_model(grown, path, {f"parameters.{name}": entries[f"parameters.{name}"] for name in unchanged})
        except Exception:
            if checkpoints and not checkpoints.has_state:
                remove([checkpoint_file], ())
            raise
    remove([checkpoint_file], ())
    batch = MODELS[model.settings.model].describe_batch(grown.learned[-1])
    note_here(f"learned {batch}, in {time.perf_counter() - began:.1f} s")
    sizes = [counted(grown.data[key], noun) for key, noun in (("N", "point"), ("D", "feature"), ("K", "label"))]
    note_here(f"knows {sizes[0]}, {sizes[1]} and {sizes[2]}")
    if model.tuned:
        note_here("the tuned threshold is that from before; `xmlgp tune` chooses another")


def _has_learned(model, dataset):
    """Return whether a model has learned these points, perhaps when it had fewer features and labels."""
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
    """Return the fingerprint of points with D features and K labels, or None if they have others."""
    parts = []
    for matrix, count in (dataset.features, D), (dataset.labels, K):
        if matrix.indices.max(initial=-1) >= count:
            return None
        parts.append(as_csr(matrix.data, matrix.indices, matrix.indptr, count))
    return Dataset(*parts).fingerprint
