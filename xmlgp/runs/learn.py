"""Let a trained model learn more points; a model in a folder is replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from xmlgp.data.dataset import no_points
from xmlgp.errors import memory_errors_reported
from xmlgp.model import check_memory
from xmlgp.model_folder.arrays import remove
from xmlgp.models import MODELS
from xmlgp.preprocess.pipeline import check_magnitudes, grow
from xmlgp.preprocess.weighting import sizes_of
from xmlgp.runs.batch import check_given, has_learned, read_batch, refuse_foreign
from xmlgp.runs.given import DenseFeatures, FilePath, Labels, Points
from xmlgp.runs.interrupted import (
    CHECKPOINT,
    InterruptedRun,
    describe_run,
    readable_run,
    resume_or_discard,
    what_is_left,
)
from xmlgp.runs.train import CHECKPOINT_SECONDS
from xmlgp.runs.trained_model import TrainedModel, held, load, next_commands, write_model
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.trained import STATISTICS, Earlier, add_statistics, statistics_of

__all__ = ["learn", "learn_points"]

#: Batches that a model keeps a record of, each some hundred bytes: with all of them, `model.json` of a server that
#: learns every few seconds would become too large to be read within days.
MOST_BATCHES = 1000


@memory_errors_reported()
def learn(
    model: FilePath | TrainedModel,
    data: Points | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    add_labels: FilePath | Sequence[str] | None = None,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    force: bool = False,
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
    data, labels, dense, checkpoint_seconds, corpus, cache, progress, note
        As for `train`, of new points only, which may have new features and labels. A model in a folder skips points
        that it has learned already.
    add_labels : path or list of str, optional
        Names of labels to add, or a file with one name per line.
    vocabulary, vocabulary_language
        As for `train`; labels that are not in it keep their earlier preferred labels. It needs no data.
    force : bool
        Whether a model in a folder learns points that are probably for another model: ten labels or words or more, of
        which it knows less than a tenth.
    resume : bool, optional
        False discards an interrupted run. True and None resume one on the same points; one on other points is an error.

    Raises
    ------
    SettingsError
        If the model cannot learn more points, or they have fewer features or labels than the model, or are probably for
        another model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    if vocabulary is None:
        check_given(data, dense, add_labels)
    known = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    with held(model) as trained:
        if known and data is None and dense is None and add_labels is None:
            return _renamed(trained, name_labels(trained.names, known, note))
        named = replace(trained, names=name_labels(trained.names, known)) if known else trained
        points, names = read_batch(named, data, labels, dense, add_labels, corpus, cache, progress, note)
        names = name_labels(names, known, note, trained.names)
        if data is None and dense is None and trained.data["K"] == points.K:
            if known:
                return _renamed(trained, names)
            note(f"{model}: the model has these labels already; nothing to do")
            return trained
        refuse_foreign(trained, points, names, force, note)
        if trained.folder is None:
            _check_memory(trained, points)
            return replace(learn_points(trained, points, progress), names=names)
        path = trained.folder.path
        _learn_into_folder(trained, points, names, progress, resume, checkpoint_seconds, note)
    return load(path)


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


def learn_points(model, dataset, progress=silent, checkpoints=None):
    """Return the `TrainedModel`, in memory, that has also learned the points of a `Dataset`, which may be empty.

    Its `data` describes all points so far; in it, `first` is the fingerprint of the points of `train`.
    """
    settings = model.settings
    data = model.data
    counts = add_statistics(model.parameters, statistics_of(dataset.features, dataset.labels))
    preprocessed = grow(model.preprocessed, settings, data["N"] + dataset.N, counts[STATISTICS[1]])
    check_magnitudes([sizes_of(preprocessed.weigh(dataset.features).sparse)], "train again with another weighting")
    learn = MODELS[settings.model].learn
    result = learn(_earlier(model), dataset.features, dataset.labels, preprocessed, progress, checkpoints)
    N, D, K = dataset.shape
    batch = {"N": N, "D": D - data["D"], "K": K - data["K"]}
    batch |= {"fingerprint": dataset.fingerprint, "history": result.history}
    facts = dict(data) | {"N": data["N"] + N, "D": D, "K": K}
    if dataset.N:
        fingerprint = hashlib.sha256(f"{data['fingerprint']} {dataset.fingerprint}".encode()).hexdigest()
        facts = {"first": data["fingerprint"]} | facts | {"fingerprint": fingerprint}
    changed = {"data": facts, "preprocessed": preprocessed, "parameters": result.parameters | counts}
    return replace(model, **changed, learned=_remembered([*model.learned, batch]), folder=None)


def _remembered(learned: list[dict]) -> list[dict]:
    """Return the batches that a model has learned, the earliest as one once there are many: a server goes on for years.

    The points of a batch among these are no longer recognised if they are given again.
    """
    if len(learned) <= MOST_BATCHES:
        return learned
    earliest = learned[: 1 - MOST_BATCHES]
    together = {key: sum(batch[key] for batch in earliest) for key in "NDK"}
    return [together | {"fingerprint": "", "history": []}, *learned[1 - MOST_BATCHES :]]


def _earlier(model):
    return Earlier(model.settings, model.preprocessed, model.parameters, *(model.data[name] for name in "NDK"))


def _check_memory(model, dataset):
    """Raise SettingsError if learning the points of a `Dataset` does not fit into memory."""
    check_memory("learning", MODELS[model.settings.model].memory_of_learning(_earlier(model), dataset))


def _learn_into_folder(model, dataset, names, progress, resume, checkpoint_seconds, note):
    """Update the model in a locked folder; do nothing if it has learned the points already."""
    path = model.folder.path
    data = model.data
    began = time.perf_counter()
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
        dataset = no_points(data["D"], label_count, data.get("dense", []))
    elif not dataset.N and dataset.shape[1:] == (data["D"], data["K"]):
        note_here(f"there are no {'documents' if names.vectorizer else 'points'}; nothing to do")
        return
    # Before it is said that an interrupted run is discarded.
    _check_memory(model, dataset)
    facts = dataset.facts | {"learns_on": data["fingerprint"]}
    run = None if resume is False else InterruptedRun.read(path)
    if run and run.learns and run.data["learns_on"] != data["fingerprint"]:
        # It ended after it wrote the model, before it removed the checkpoint.
        run = None
    run, discarded = resume_or_discard(path, run, facts, model.settings, resume, note_here)
    if discarded:
        remove([checkpoint_file], ())
    checkpoint = run and run.checkpoint
    writer = None
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
    sizes = [counted(grown.data[key], noun) for key, noun in (("N", "point"), ("D", "feature"), ("K", "label"))]
    took = f"in {time.perf_counter() - began:.1f} s"
    note_here(f"learned {batch}, {took}; the model now knows {sizes[0]}, {sizes[1]} and {sizes[2]}")
    if model.tuned:
        note_here(
            "the threshold is still that of the last `xmlgp tune`; tune again on points that the model has not seen"
        )
    note_here(next_commands(path, grown.data, grown.names))
