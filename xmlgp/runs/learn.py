"""Let a trained model learn more points; a model in a folder is replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xmlgp.data.dataset import Dataset, no_points
from xmlgp.errors import SettingsError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.source import DenseFeatures, Labels, Points, Source
from xmlgp.model import check_memory
from xmlgp.model_folder.arrays import remove
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.preprocess.pipeline import check_magnitudes, grow
from xmlgp.preprocess.weighting import sizes_of
from xmlgp.runs.batch import check_batch, has_learned, read_batch, refuse_foreign
from xmlgp.runs.interrupted import CHECKPOINT, Destination, describe_run, readable_run, resume_or_discard, what_is_left
from xmlgp.runs.train import CHECKPOINT_SECONDS
from xmlgp.runs.trained_model import TrainedModel, held, next_commands, write_model
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter, silent
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.trained import STATISTICS, Earlier, add_statistics, statistics_of

__all__ = ["learn", "learn_points"]

#: Batches that a model keeps a record of, each some hundred bytes: with all of them, `model.json` of a server that
#: learns every few seconds would become too large to be read within days.
MOST_BATCHES = 1000


@memory_errors_reported()
def learn(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    add_labels: FilePath | Sequence[str] | None = None,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    force: bool = False,
    resume: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> TrainedModel:
    """Let a trained model learn more points, with its posterior as the prior.

    Parameters
    ----------
    model : path or TrainedModel
        A model in a folder is replaced at the end; a model in memory stays unchanged.
    data, labels, dense, checkpoint_seconds, progress, note
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
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    if vocabulary is None:
        check_batch(source, add_labels)
    known = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    with held(model) as trained:
        if known and source.is_empty and add_labels is None:
            return _renamed(trained, name_labels(trained.names, known, reporter.note))
        named = replace(trained, names=name_labels(trained.names, known)) if known else trained
        points, names = read_batch(named, source, add_labels, reporter)
        names = name_labels(names, known, reporter.note, trained.names)
        if source.is_empty and trained.data["K"] == points.K:
            if known:
                return _renamed(trained, names)
            reporter.note(f"{model}: the model has these labels already; nothing to do")
            return trained
        refuse_foreign(trained, points, names, force, reporter.note)
        if trained.folder is None:
            _check(trained, points)
            return replace(learn_points(trained, points, reporter.progress), names=names)
        learning = FolderLearning(trained, trained.folder, names, checkpoint_seconds, reporter)
        batch = learning.new_points(points)
        return trained if batch is None else learning.run(batch, resume)


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


def learn_points(
    model: TrainedModel, dataset: Dataset, progress: Progress = silent, checkpoints: CheckpointWriter | None = None
) -> TrainedModel:
    """Return the model, in memory, that has also learned the points of a `Dataset`, which may be empty.

    Its `data` describes all points so far; in it, `first` is the fingerprint of the points of `train`.
    """
    settings = model.settings
    data = model.data
    counts = add_statistics(model.parameters, statistics_of(dataset.features, dataset.labels))
    preprocessed = grow(model.preprocessed, settings, data["N"] + dataset.N, counts[STATISTICS[1]])
    check_magnitudes([sizes_of(preprocessed.weigh(dataset.features).sparse)], "train again with another weighting")
    learn = MODELS[settings.model].learn
    if learn is None:
        raise TypeError("this model cannot learn on")
    result = learn(_earlier(model), dataset.features, dataset.labels, preprocessed, progress, checkpoints)
    N, D, K = dataset.shape
    batch = {"N": N, "D": D - data["D"], "K": K - data["K"]}
    batch |= {"fingerprint": dataset.fingerprint, "history": result.history}
    facts: dict[str, Any] = dict(data) | {"N": data["N"] + N, "D": D, "K": K}
    if dataset.N:
        fingerprint = hashlib.sha256(f"{data['fingerprint']} {dataset.fingerprint}".encode()).hexdigest()
        facts = {"first": data["fingerprint"]} | facts | {"fingerprint": fingerprint}
    return replace(
        model,
        data=facts,
        preprocessed=preprocessed,
        parameters=dict(result.parameters) | counts,
        learned=_remembered([*model.learned, batch]),
        folder=None,
    )


def _remembered(learned: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the batches that a model has learned, the earliest as one once there are many: a server goes on for years.

    The points of a batch among these are no longer recognised if they are given again.
    """
    if len(learned) <= MOST_BATCHES:
        return learned
    earliest = learned[: 1 - MOST_BATCHES]
    together = {key: sum(batch[key] for batch in earliest) for key in "NDK"}
    return [together | {"fingerprint": "", "history": []}, *learned[1 - MOST_BATCHES :]]


def _earlier(model: TrainedModel) -> Earlier[Any]:
    return Earlier(model.settings, model.preprocessed, model.parameters, *(model.data[name] for name in "NDK"))


def _check(model: TrainedModel, dataset: Dataset) -> None:
    """Raise SettingsError if a model cannot learn the points of a `Dataset`, or they do not fit into memory."""
    record = MODELS[model.settings.model]
    if "unknown" in model.data and not record.learns_after_unknown:
        raise SettingsError(
            "the model was trained with unknown labels, which it would learn on as negative; train again on all points"
        )
    check_memory("learning", record.memory_of_learning(_earlier(model), dataset))


@dataclass(frozen=True, eq=False)
class FolderLearning:
    """Learning of a model in a locked folder, with checkpoints some seconds apart; messages begin with the path."""

    model: TrainedModel
    folder: ModelFolder
    names: Names
    checkpoint_seconds: float
    reporter: Reporter

    def note(self, text: str) -> None:
        """Note a message about the folder."""
        self.reporter.note(f"{self.folder.path}: {text}")

    @property
    def checkpoint_file(self) -> Path:
        """The file of the last checkpoint."""
        return self.folder.path / CHECKPOINT

    def new_points(self, dataset: Dataset) -> Dataset | None:
        """Return the points that are to be learned, perhaps none but more labels; None if there is nothing to do."""
        data = self.model.data
        if not has_learned(self.model, dataset):
            if dataset.N or dataset.shape[1:] != (data["D"], data["K"]):
                return dataset
            self.note(f"there are no {'documents' if self.names.vectorizer else 'points'}; nothing to do")
            return None
        self.note("the model has learned these points already; nothing to do")
        run = readable_run(self.folder.path)
        if run and run.learns and run.data.get("fingerprint") == dataset.fingerprint:
            # The run ended after it wrote the model, before it removed the checkpoint.
            remove([self.checkpoint_file], ())
        label_count = len(self.names.labels or ())
        # The call may also add names of labels.
        return no_points(data["D"], label_count, data.get("dense", [])) if label_count > data["K"] else None

    def run(self, dataset: Dataset, resume: bool | None) -> TrainedModel:
        """Learn points, write the model and return it, and say how it went."""
        began = time.perf_counter()
        # Before it is said that an interrupted run is discarded.
        _check(self.model, dataset)
        writer = self._writer(dataset, resume)
        with what_is_left(self.folder.path, self.note):
            try:
                model = self._learned(dataset, writer)
            except Exception:
                if writer and not writer.has_state:
                    remove([self.checkpoint_file], ())
                raise
        remove([self.checkpoint_file], ())
        self._note_result(model, time.perf_counter() - began)
        return model

    def _writer(self, dataset: Dataset, resume: bool | None) -> CheckpointWriter | None:
        """Return what writes checkpoints, from that of an interrupted run if it is resumed."""
        destination = Destination(self.folder.path)
        earlier = self.model.data["fingerprint"]
        facts = dataset.facts | {"learns_on": earlier}
        run = None if resume is False else destination.run
        if run and run.learns and run.data["learns_on"] != earlier:
            # It ended after it wrote the model, before it removed the checkpoint.
            run = None
        run, discarded = resume_or_discard(destination, run, facts, self.model.settings, resume, self.note)
        if discarded:
            remove([self.checkpoint_file], ())
        checkpoint = run.checkpoint if run else None
        if not (self.checkpoint_seconds or checkpoint):
            return None
        about = describe_run(facts, self.model.settings, {})
        return CheckpointWriter(self.checkpoint_file, about, self.checkpoint_seconds, checkpoint)

    def _learned(self, dataset: Dataset, writer: CheckpointWriter | None) -> TrainedModel:
        """Learn points and write the model; arrays that did not change stay as they are."""
        model = replace(learn_points(self.model, dataset, self.reporter.progress, writer), names=self.names)
        entries = self.folder.entries("parameters.")
        unchanged = [name for name, value in model.parameters.items() if value is self.model.parameters.get(name)]
        keep = {f"parameters.{name}": entries[f"parameters.{name}"] for name in unchanged}
        return replace(model, folder=write_model(model, self.folder.path, keep))

    def _note_result(self, model: TrainedModel, seconds: float) -> None:
        batch = MODELS[model.settings.model].describe_batch(model.learned[-1])
        sizes = [counted(model.data[key], noun) for key, noun in (("N", "point"), ("D", "feature"), ("K", "label"))]
        self.note(f"learned {batch}, in {seconds:.1f} s; the model now knows {sizes[0]}, {sizes[1]} and {sizes[2]}")
        if model.tuned:
            self.note(
                "the threshold is still that of the last `xmlgp tune`; tune again on points that the model has not seen"
            )
        self.note(next_commands(self.folder.path, model.data, model.names))
