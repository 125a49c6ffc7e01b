"""Train a model in stages: read points, choose settings, preprocess, train, write.

A run into a folder begins at the start, or at the checkpoint of an interrupted run.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from xmlgp.api.interrupted import CHECKPOINT, InterruptedRun, describe_run, discard_run, left_by_failure, run_to_resume
from xmlgp.api.points import FilePath
from xmlgp.api.source import Labels, Points, Source, is_path
from xmlgp.api.trained_model import TrainedModel, describe, model_to_replace, read_preprocessing, write_model
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset, widen
from xmlgp.features.pipeline import Preprocessed
from xmlgp.model_folder.arrays import Entry, remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder
from xmlgp.model_folder.kept_points import arrays_of_points
from xmlgp.models.fields import Settings
from xmlgp.models.table import DEFAULT_MODEL, MODELS, check_recipe, default_model, resolve
from xmlgp.runtime.errors import ModelFolderError, SettingsError, UsageError
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.text.label_texts import NumberedTexts, number_texts, read_label_texts
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels
from xmlgp.training.checkpoints import CheckpointWriter

__all__ = ["CHECKPOINT_SECONDS", "ChosenSettings", "Run", "read_run", "train", "train_into"]

#: Settings by name, perhaps with the `model` and a `recipe`, or complete `Settings`.
ChosenSettings: TypeAlias = "Mapping[str, Any] | Settings"

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def train(
    data: Points | Source,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    settings: ChosenSettings | None = None,
    resume: bool = True,
    overwrite: bool = False,
    keep_points: bool = True,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    reporter: Reporter = QUIET,
    executor: Executor = LOCAL_EXECUTOR,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str, Dataset or Source
        The training points; a path as for `xmlgp train`. A `Source` also says how a file of text is read, which words
        are features, which dense features the points have, and what is known of their labels. The columns of a
        DataFrame are the names of the features, which later ones must have in the same order; those of a DataFrame of
        labels are the names of the labels.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    settings : mapping, optional
        Settings by name, see docs/commands.md. The `model` may be among them, "mlgpf", "bmlpl" or "gpc", and a
        `recipe`, which the others override: its name in the catalogue, or a file of settings (.yaml). A `Settings`
        object is taken as it is.
    resume : bool
        Whether an interrupted run in the folder resumes, which must have the same data and settings, rather than being
        discarded.
    overwrite : bool
        Whether to replace a trained model of other data or with other settings in the folder, which is otherwise an
        error. A model of the same data with the same settings is replaced either way.
    keep_points : bool
        Whether the model keeps the points as read, which `learn` needs to train again.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    reporter : Reporter, optional
        Receives progress and messages, see `xmlgp.runtime.progress`. Default: nothing is shown.
    executor : LocalExecutor or DaskCluster, optional
        Where to train, see `xmlgp.cluster.connection.open_executor`. Default: on this machine.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        For settings that are not allowed or contradict what is to be resumed, for points that the model cannot be
        trained on, or training that does not fit into memory.
    ModelFolderError
        If another process is writing the folder, an interrupted run is damaged or another one, or a model of other data
        or with other settings is there.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    if path is not None and not is_path(path):
        raise UsageError("The second argument is the path of a model folder; give labels as labels=….")
    source = Source.of(data, labels)
    with reporter.progress("training"):
        run = read_run(source, settings, path, reporter=reporter, executor=executor, keep_points=keep_points)
        if path is None:
            return run.train(run.preprocess())
        with lock_model_folder(path):
            return train_into(Path(path), run, resume, overwrite, checkpoint_seconds)


@dataclass(frozen=True, eq=False)
class Run:
    """A training run: its points, their names, the texts of labels, and settings.

    `facts` are further attributes of the `TrainedModel`. SettingsError is raised for points that the model cannot be
    trained on, or a cluster that it cannot use.
    """

    dataset: Dataset
    names: Names
    settings: Settings
    reporter: Reporter = QUIET
    executor: Executor = LOCAL_EXECUTOR
    texts: NumberedTexts | None = None
    keep_points: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = MODELS[self.settings.model]
        if self.dataset.K == 0:
            raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
        for what, given in ("texts of labels", self.texts), ("dense features", self.dataset.features.width):
            if given and not model.has_neighbours(self.settings):
                needed = "model=mlgpf with inducing=features, kernel=linear and neighbours=true, which are its defaults"
                raise SettingsError(f"{what} need {needed}")
        model.check_data(self.dataset)
        model.executor_options(self.executor)

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows the data by: their facts, and the texts of labels."""
        facts = dict(self.dataset.facts)
        return facts | {"label_texts": self.texts.fingerprint} if self.texts else facts

    def preprocess(self) -> Preprocessed:
        """Return the result of preprocessing, as the model does it."""
        model = MODELS[self.settings.model]
        options = model.executor_options(self.executor)
        return model.preprocess(self.dataset.features, self.settings, self.reporter.progress, **options)

    def train(self, preprocessed: Preprocessed, checkpoints: CheckpointWriter | None = None) -> TrainedModel:
        """Return the model that is trained on preprocessed points."""
        model = MODELS[self.settings.model]
        options: dict[str, Any] = model.executor_options(self.executor)
        names = self.names
        if self.texts and names.vectorizer:
            options = options | {"label_texts": (self.texts.words(names.vectorizer), self.texts.labels)}
            names = names._replace(texts=self.texts.texts)
        if model.holds_out:
            options = options | {"groups": self.dataset.groups}
        parameters, history, held_out = model.train(
            self.dataset.features,
            self.dataset.labels,
            preprocessed,
            self.settings,
            self.reporter.progress,
            checkpoints,
            **options,
        )
        return TrainedModel(
            self.settings,
            self.dataset.facts,
            preprocessed,
            parameters,
            history,
            names,
            held_out=held_out,
            points=arrays_of_points(self.dataset) if self.keep_points else {},
            **self.facts,
        )


def read_run(
    source: Source,
    settings: ChosenSettings | None = None,
    path: FilePath | None = None,
    *,
    reporter: Reporter = QUIET,
    executor: Executor = LOCAL_EXECUTOR,
    keep_points: bool = True,
) -> Run:
    """Read the points of a run and choose its settings.

    Before data are read, which can take minutes, an error is raised for an unknown recipe, and for a model folder
    `path` that cannot be written.
    """
    chosen = settings or {}
    if isinstance(chosen, Mapping) and chosen.get("recipe") is not None:
        check_recipe(load_catalogue(), chosen["recipe"])
    if path is not None:
        with lock_model_folder(path):
            pass
    concepts = source.read_vocabulary()
    same = concepts and concepts.same
    dataset, data_format, names = source.read(folder=path, same=same, reporter=reporter)
    texts = None
    if source.label_texts is not None:
        pairs = read_label_texts(source.label_texts)
        names, texts = number_texts(names, pairs, same)
        K = len(names.labels or ())
        new = counted(K - dataset.K, "label")
        labels = counted(len({label for label, _ in pairs}), "label")
        reporter.note(f"{source.label_texts}: texts of {labels}; {new} new")
        dataset = replace(dataset, labels=widen(dataset.labels, K))
    names = name_labels(names, concepts, note=reporter.note)
    about = reporter if path is None else reporter.about(path)
    return Run(
        dataset, names, _choose_settings(chosen, data_format, dataset, about.note), about, executor, texts, keep_points
    )


def _choose_settings(
    chosen: ChosenSettings, data_format: str, dataset: Dataset, note: Callable[[str], object]
) -> Settings:
    """Return complete settings for a data set, and tell the user what they do not say themselves."""
    if isinstance(chosen, Settings):
        return chosen
    names = dict(chosen)
    recipe = names.pop("recipe", None)
    default = default_model(data_format)
    if recipe is None and "model" not in names:
        names["model"] = default
        if default != DEFAULT_MODEL:
            note(f"the model is {default}, the default for data of this format")
    settings, entry = resolve(load_catalogue(), recipe, dataset.shape, names)
    if entry and recipe:
        note(f"recipe {recipe} of the model {settings.model} with its settings for {entry.name}")
    unused = settings.unused()
    for name in sorted(unused.keys() & names.keys()):
        note(f"{name} has no effect with {unused[name]}")
    for text in MODELS[settings.model].notes(settings, dataset):
        note(text)
    return settings


def train_into(
    path: Path, run: Run, resume: bool = True, overwrite: bool = False, checkpoint_seconds: float = CHECKPOINT_SECONDS
) -> TrainedModel:
    """Train into a locked model folder, with checkpoints, and say how it went; see `train`."""
    note = run.reporter.note
    earlier = model_to_replace(path, run.dataset.facts, run.settings, overwrite)
    if not resume:
        discard_run(path)
    interrupted = run_to_resume(path, run.identity, run.settings, note)
    began = time.perf_counter()
    with left_by_failure(path, note):
        preprocessed, entries = _preprocessed(path, run, earlier, interrupted)
        about = describe_run(run.identity, run.settings, entries)
        state = interrupted.checkpoint if interrupted else None
        model = run.train(preprocessed, CheckpointWriter(path / CHECKPOINT, about, checkpoint_seconds, state))
        folder = write_model(model, path, entries)
    remove([path / CHECKPOINT], ())
    measured = describe(model)
    took = f"trained in {time.perf_counter() - began:.1f} s"
    note(f"{took}; {measured['precision']}" if "precision" in measured else took)
    review = MODELS[run.settings.model].review(run.settings, folder.description)
    for text in filter(None, [measured.get("calibration"), *review]):
        note(text)
    predict, show = (shlex.join(["xmlgp", name, os.fspath(path)]) for name in ("predict", "show"))
    dense = " --dense FILE" if "dense" in model.data else ""
    note(f"next, `{predict} DATA{dense}`; `{show}` has the details")
    return replace(model, folder=folder)


def _preprocessed(
    path: Path, run: Run, earlier: ModelFolder | None, interrupted: InterruptedRun | None
) -> tuple[Preprocessed, Mapping[str, Entry]]:
    """Return the preprocessing of an earlier run or a new one, and the entries of its arrays in the folder."""
    if interrupted:
        try:
            return read_preprocessing(path, interrupted.preprocess, run.settings, run.dataset.D), interrupted.preprocess
        except ModelFolderError as error:
            raise ModelFolderError(f"{error}; use `resume=False` to start a new run") from error
    if earlier and earlier.settings.preprocess_part() == run.settings.preprocess_part():
        entries = earlier.entries("preprocess.")
        return read_preprocessing(path, entries, run.settings, run.dataset.D), entries
    if earlier and earlier.stage == "preprocessed":
        run.reporter.note("preprocessing is repeated, because its settings are different")
    preprocessed = run.preprocess()
    written: dict[str, Entry] = {}
    write_arrays(path, preprocessed.to_arrays("preprocess."), written)
    return preprocessed, written
