"""A trained model, in memory or in a folder."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.api.interrupted import CHECKPOINT, different_settings, protected_arrays
from xmlgp.api.points import FilePath, Signature
from xmlgp.api.source import is_path
from xmlgp.features.pipeline import Preprocessed
from xmlgp.model_folder.arrays import Entry, read_array
from xmlgp.model_folder.description import plain_classes
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder
from xmlgp.models.fields import Settings
from xmlgp.models.model import Topic
from xmlgp.models.table import MODELS
from xmlgp.neighbours.regression import CHOICES, RECALL, in_words
from xmlgp.prediction.predictor import Predictor
from xmlgp.runtime.errors import ModelFolderError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.text.label_texts import NumberedTexts
from xmlgp.text.names import Names
from xmlgp.training.result import HeldOutMeasures

__all__ = [
    "TrainedModel",
    "describe",
    "load",
    "locked_model",
    "model_to_replace",
    "open_model",
    "as_trained_model",
    "read_preprocessing",
    "rewritten",
    "stored_preprocessing",
    "topics_of",
    "write_model",
]


@dataclass(eq=False)
class TrainedModel:
    """A trained model, in a folder or in memory; `train`, `learn` and `load` return one.

    Attributes
    ----------
    settings : Settings
    data : dict
        Facts of the points that it knows: N, D, K, fingerprint.
    preprocessed : Preprocessed
    parameters : dict of str to ndarray
        As described in docs/model-folder.md; those of a folder are read-only and mapped into memory.
    history : list of dict
        For each epoch `epoch`, the model's objective and `seconds`.
    names : Names
        Of labels and features, and what maps text to features; each may be None.
    held_out : HeldOutMeasures or None
        What `train` measured on points that it held out.
    learned : list of dict
        After `learn`, the facts of the points of `train` and of each `learn`.
    points : dict of str to ndarray
        The training points that the model keeps; empty if it keeps none.
    classes : ndarray or None
        The two classes that `GPCClassifier` was fitted to.
    folder : ModelFolder or None
    predictor : Predictor
    """

    settings: Settings
    data: dict[str, Any]
    preprocessed: Preprocessed
    parameters: dict[str, NDArray[Any]]
    history: list[dict[str, Any]]
    names: Names = Names()
    learned: list[dict[str, Any]] = field(default_factory=list)
    classes: NDArray[Any] | None = None
    folder: ModelFolder | None = None
    held_out: HeldOutMeasures | None = None
    points: dict[str, NDArray[Any]] = field(default_factory=dict)

    @functools.cached_property
    def predictor(self) -> Predictor:
        """Scores points with this model."""
        create: Callable[..., Predictor] = MODELS[self.settings.model].load_predictor()
        return create(self.settings, self.preprocessed, self.parameters, self.data["D"])

    @property
    def batches(self) -> list[dict[str, Any]]:
        """The facts of the points of `train` and of each `learn`."""
        return self.learned or [self.data]

    @property
    def signature(self) -> Signature:
        """What the model expects of points."""
        data = self.data
        folder = self.folder.path if self.folder else None
        sizes = data["D"], data["K"], data.get("dense", 0)
        return Signature(self.names, *sizes, str(self), folder, first_feature=data.get("first_feature"))

    @property
    def label_counts(self) -> NDArray[np.integer] | None:
        """How many of the points that the model knows have each label, K; None if it does not say."""
        return self.parameters.get("statistics.labels")

    @property
    def numbered_texts(self) -> NumberedTexts | None:
        """The texts of labels, or None."""
        labels = self.parameters.get("label_texts.labels")
        return None if labels is None or self.names.texts is None else NumberedTexts(self.names.texts, labels)

    def save(self, path: FilePath) -> None:
        """Write the model into a folder, which is created if missing, for `load` and all commands.

        A model in it is replaced as a whole; an interrupted run stays. ModelFolderError if another process is writing
        the folder, or its model.json cannot be read; SettingsError if it cannot hold the names of two classes.
        """
        if ModelFolder.exists(path):
            # What is not a model is not replaced.
            ModelFolder(path)
        with lock_model_folder(path):
            write_model(self, path)

    def __repr__(self) -> str:
        where = f", in {self}" if self.folder else ""
        return f"<{self.settings.model.upper()} model of {describe(self)['data']}{where}>"

    def __str__(self) -> str:
        return str(self.folder.path) if self.folder else "the model"


def describe(model: TrainedModel) -> dict[str, str]:
    """Return what a model is, for people: its data, its training and what was measured, each a word and a text."""
    record = MODELS[model.settings.model]
    last = model.history[-1]
    sizes = (counted(model.data[letter], noun) for letter, noun in (("N", "point"), ("D", "feature"), ("K", "label")))
    rows = {
        "data": ", ".join(sizes),
        "training": f"{record.epochs(last)}, {last['seconds']:.1f} s, {record.objective_at(last)}",
    }
    if model.held_out:
        # The best of a single label is no measure.
        if model.data["K"] > 1:
            counts = np.diff(np.ravel(model.points.get("label_indptr", [])))
            rows["precision"] = model.held_out.precision(model.data["K"], counts)
        rows["calibration"] = model.held_out.reliability()
    if CHOICES in model.parameters:
        rows["nearest"] = in_words(model.parameters[CHOICES], model.parameters[RECALL])
    if model.learned:
        first, *later = model.learned
        rows["learned"] = f"{', '.join(counted(batch['N'], 'point') for batch in later)} after {first['N']}"
    return rows


def write_model(
    model: TrainedModel, path: FilePath, keep: Mapping[str, Any] | None = None, **facts: object
) -> ModelFolder:
    """Write a model into a locked folder, and return the folder; it has the arrays of the entries `keep` already."""
    arrays = _arrays_of(model)
    keep = keep or {}
    if model.learned:
        facts["learned"] = model.learned
    if model.held_out:
        facts["held_out"] = model.held_out._asdict()
    if model.classes is not None:
        facts["classes"] = plain_classes(model.classes)
    return ModelFolder.write(
        path,
        settings=model.settings,
        stage="trained",
        data=model.data,
        arrays={name: array for name, array in arrays.items() if name not in keep},
        keep=keep,
        protected=protected_arrays(path),
        history=model.history,
        names=model.names,
        **facts,
    )


def _arrays_of(model: TrainedModel) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model by the names that its folder has for them, without those of names."""
    arrays = model.preprocessed.to_arrays("preprocess.")
    arrays |= {f"parameters.{name}": array for name, array in model.parameters.items()}
    return arrays | {f"points.{name}": array for name, array in model.points.items()}


def model_to_replace(
    path: FilePath, facts: Mapping[str, Any], settings: Settings, overwrite: bool
) -> ModelFolder | None:
    """Return the model in a folder if it is of data with these facts.

    ModelFolderError if a trained model of other data, or with other settings, would be lost.
    """
    if not ModelFolder.exists(path):
        return None
    try:
        folder = ModelFolder(path)
    except ModelFolderError as error:
        if overwrite:
            return None
        raise ModelFolderError(f"{error}; choose another folder, or replace it with `overwrite=True`") from None
    data = folder.description["data"]
    # A model of an earlier version may have fewer facts.
    is_same = data.items() <= facts.items()
    difference = different_settings(folder.settings.with_model(), settings)
    if not is_same:
        difference = f"on other data ({counted(data['N'], 'point')})"
    if difference and folder.stage == "trained" and not overwrite:
        advice = "choose another folder, or replace it with `overwrite=True`"
        raise ModelFolderError(f"{path}: the model here was trained {difference}; {advice}")
    return folder if is_same else None


def rewritten(before: TrainedModel, model: TrainedModel) -> TrainedModel:
    """Return a changed model, written into the locked folder of the one before, if there is one.

    Arrays that are the same objects stay as they are in the folder.
    """
    if before.folder is None:
        return model
    earlier, entries = _arrays_of(before), before.folder.entries("")
    keep = {name: entries[name] for name, array in _arrays_of(model).items() if array is earlier.get(name)}
    return replace(model, folder=write_model(model, before.folder.path, keep))


def load(path: FilePath) -> TrainedModel:
    """Return the model in a folder, which is not trusted: it holds no code, and its content is checked.

    ModelFolderError if there is no model, or it is not trained yet, damaged or of another version.
    """
    try:
        return ModelFolder.read(path, open_model)
    except ModelFolderError as error:
        if not (Path(path) / CHECKPOINT).exists():
            raise
        command = shlex.join(["xmlgp", "show", os.fspath(path)])
        raise ModelFolderError(f"{error}; the folder has an unfinished run, see `{command}`") from None


def as_trained_model(model: FilePath | TrainedModel) -> TrainedModel:
    """Return a model as it is, or load it if it is given by its path."""
    return model if isinstance(model, TrainedModel) else load(_checked_path(model))


def _checked_path(model: object) -> FilePath:
    """Return the path of a model; UsageError for anything else."""
    if not is_path(model):
        raise UsageError(
            f"A model is a path or a TrainedModel, not {type(model).__name__}; a fitted estimator has one as `model_`."
        )
    return model


@contextlib.contextmanager
def locked_model(model: FilePath | TrainedModel) -> Iterator[TrainedModel]:
    """Yield a model that is to change: one in memory as it is, one in a folder as it is now; others cannot write it."""
    folder = model.folder if isinstance(model, TrainedModel) else ModelFolder(_checked_path(model))
    if folder is None:
        yield as_trained_model(model)
        return
    with lock_model_folder(folder.path):
        now = ModelFolder(folder.path)
        # Array files have other names in every model, so an equal description means the same model.
        is_current = isinstance(model, TrainedModel) and now.description == folder.description
        yield as_trained_model(model) if is_current else open_model(now)


def open_model(folder: ModelFolder) -> TrainedModel:
    """Return the trained model in a folder, whose arrays have been checked.

    ModelFolderError if the model is not trained yet, or damaged. With `ModelFolder.read(path, open_model)` all arrays
    are of one model, even while another replaces it.
    """
    if folder.stage != "trained":
        raise ModelFolderError(f"{folder.path}: the model is {folder.stage}, but not trained yet")
    about = folder.description
    data = about["data"]
    preprocessed = stored_preprocessing(folder)
    parameters = folder.arrays("parameters.")
    kind = MODELS[folder.settings.model].load_predictor()
    predictor = kind.from_arrays(folder.settings, preprocessed, parameters, data["D"], data["K"])
    if predictor is None or predictor.width != data.get("dense", 0):
        raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit each other")
    model = TrainedModel(
        settings=folder.settings,
        data=data,
        preprocessed=preprocessed,
        parameters=parameters,
        history=about["history"],
        names=folder.names,
        learned=about.get("learned", []),
        classes=np.array(about["classes"]) if "classes" in about else None,
        folder=folder,
        held_out=HeldOutMeasures.from_untrusted(about.get("held_out")),
        points=folder.arrays("points."),
    )
    model.predictor = predictor
    return model


def topics_of(model: TrainedModel, top: int = 5, most: int | None = None) -> list[Topic]:
    """Return the topics of a model, highest share first, each with its `top` labels; ModelFolderError without topics.

    If there are more than `most`, those that are most alike are joined.
    """
    name = model.settings.model
    topics = MODELS[name].topics
    if topics is None:
        with_topics = " or ".join(other for other, record in MODELS.items() if record.topics)
        raise ModelFolderError(f"{model}: {name} has no topics; train with --model {with_topics}")
    return topics(model.parameters, top, most)


def read_preprocessing(path: Path, entries: Mapping[str, Entry], settings: Settings, D: int) -> Preprocessed:
    """Return the `Preprocessed` of the arrays in a model folder that have these entries.

    ModelFolderError if arrays are damaged or do not fit the settings and D features.
    """
    arrays = {name.removeprefix("preprocess."): read_array(path, name, entry) for name, entry in entries.items()}
    try:
        return Preprocessed.from_arrays(arrays, settings, D)
    except (TypeError, ValueError):
        raise ModelFolderError(f"{path}: the model is damaged, its arrays do not fit its settings") from None


def stored_preprocessing(folder: ModelFolder) -> Preprocessed:
    """Return the `Preprocessed` of a folder."""
    D = folder.description["data"]["D"]
    return read_preprocessing(folder.path, folder.entries("preprocess."), folder.settings, D)
