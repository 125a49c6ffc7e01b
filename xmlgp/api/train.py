"""Train a model, in memory or into its folder: from the start, or from the checkpoint of an interrupted run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xmlgp.api.interrupted import (
    CHECKPOINT,
    InterruptedRun,
    describe_run,
    discard_run,
    protected_arrays,
    readable_run,
    run_to_resume,
    what_is_left,
)
from xmlgp.api.kept_points import arrays_of_points
from xmlgp.api.points import FilePath, is_path
from xmlgp.api.requests import Request, check_recipe_is_known, model_to_replace
from xmlgp.api.source import DenseFeatures, Labels, Points, Source
from xmlgp.api.trained_model import (
    TrainedModel,
    named_arrays,
    next_commands,
    preprocessed_from,
    stored_preprocessing,
    write_model,
)
from xmlgp.data.dataset import Dataset, widened
from xmlgp.features.pipeline import Preprocessed
from xmlgp.model_folder.arrays import remove, write_arrays
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models.fields import Settings
from xmlgp.models.table import MODELS, Recipe, default_model
from xmlgp.runtime.errors import ModelFolderError, SettingsError, UsageError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import Progress, Reporter
from xmlgp.runtime.work import THIS_MACHINE, Work
from xmlgp.text.label_texts import NumberedTexts, number_texts, read_label_texts
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels, read_vocabulary
from xmlgp.training.checkpoints import CheckpointWriter

__all__ = ["CHECKPOINT_SECONDS", "FolderTraining", "check_training", "preprocess", "train", "train_in_memory"]

#: From one checkpoint to the next within an epoch.
CHECKPOINT_SECONDS = 300


def preprocess(  # noqa: PLR0913, which are the options of the command
    data: Points | Source,
    path: FilePath,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: Recipe | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
    work: Work | None = None,
) -> ModelFolder:
    """Preprocess points into a model folder, from which `train` continues.

    The parameters are those of `train`. An interrupted run in the folder stays.
    """
    check_recipe_is_known(recipe)
    _check_destination(path)
    reporter = Reporter.of(progress, note)
    work = work or THIS_MACHINE
    dataset, data_format, _ = Source.of(data, labels, dense).read(folder=path, reporter=reporter)
    chosen, notes = Request(settings or {}, recipe, default_model(data_format)).settings(dataset)
    for text in notes:
        reporter.note(f"{path}: {text}")
    with lock_model_folder(path):
        model_to_replace(Path(path), dataset, overwrite)
        check_training(dataset, chosen, work)
        return ModelFolder.write(
            path,
            settings=chosen,
            stage="preprocessed",
            data=dataset.facts,
            arrays=named_arrays(preprocess_data(dataset, chosen, reporter.progress, work)),
            protected=protected_arrays(path),
        )


def train(  # noqa: PLR0913, which are the options of the command
    data: Points | Source,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: Recipe | None = None,
    resume: bool = True,
    overwrite: bool = False,
    keep_points: bool = True,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    vocabulary: FilePath | None = None,
    vocabulary_language: str | None = None,
    label_texts: FilePath | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
    work: Work | None = None,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str, Dataset or Source
        The training points; a path as for `xmlgp train`; a `Source` also says how a file of text is read, which words
        are features. The columns of a DataFrame are the names of the features,
        which later ones must have in the same order; those of a DataFrame of labels are the names of the labels.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    dense : path or array N×E, optional
        Dense features beside the others, such as embeddings, a row for each point: a .npy file or an array. They are
        used by the regression on neighbours alone.
    settings : mapping, optional
        Settings by name, see docs/settings.md, and perhaps the `model`: "mlgpf", "bmlpl" or "gpc". A `Settings` object
        is taken as it is.
    recipe : str or path, optional
        Named settings of the catalogue, or a file of settings (.yaml), which `settings` override.
    resume : bool
        Whether an interrupted run in the folder resumes, which must have the same data and settings, rather than being
        discarded.
    overwrite : bool
        Whether to replace a trained model of other data in the folder, which is otherwise an error. A model of the same
        data is replaced either way.
    keep_points : bool
        Whether the model keeps the points as read, which `learn` needs to train again.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    vocabulary : path, optional
        A vocabulary with URIs and preferred labels, by which predictions name the labels; see docs/text.md.
    vocabulary_language : str, optional
        The language of preferred labels. Default: English if there are any, otherwise that of most labels.
    label_texts : path, optional
        Texts of labels, lines `label<TAB>text`: names, alternative names or descriptions, by which documents may have
        labels that no training document has; see docs/text.md.
    progress : callable, optional
        Shows the progress of long work, see `xmlgp.runtime.progress`. Default: nothing does.
    note : callable, optional
        Receives messages. Default: nothing does.
    work : ThisMachine or DaskCluster, optional
        Where to train, see `xmlgp.cluster.connection.open_work`. Default: on this machine.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        For settings that are not allowed or contradict what is to be resumed, for points that the model cannot be
        trained on, or training that does not fit into memory.
    ModelFolderError
        If another process is writing the folder, an interrupted run is damaged or another one, or a model of other data
        is there.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    if path is not None and not is_path(path):
        raise UsageError("The second argument is the path of a model folder; give labels as labels=….")
    check_recipe_is_known(recipe)
    if path is not None:
        _check_destination(path)
    reporter = Reporter.of(progress, note)
    work = work or THIS_MACHINE
    known = None if vocabulary is None else read_vocabulary(vocabulary, vocabulary_language)
    same = known and known.same
    dataset, data_format, names = Source.of(data, labels, dense).read(folder=path, same=same, reporter=reporter)
    texts = None
    if label_texts is not None:
        pairs = read_label_texts(label_texts)
        names, texts = number_texts(names, pairs, same)
        K = len(names.labels or ())
        new = counted(K - dataset.K, "label")
        reporter.note(f"{label_texts}: texts of {counted(len({label for label, _ in pairs}), 'label')}; {new} new")
        dataset = Dataset(dataset.features, widened(dataset.labels, K))
    names = name_labels(names, known, note=reporter.note)
    request = Request(settings or {}, recipe, default_model(data_format))
    if path is not None:
        training = FolderTraining(
            Path(path), dataset, names, checkpoint_seconds, reporter, work, keep_points, texts=texts
        )
        with lock_model_folder(path):
            return training.run(request, resume, overwrite)
    chosen, notes = request.settings(dataset)
    for text in notes:
        reporter.note(text)
    return train_in_memory(dataset, chosen, names, reporter.progress, work, keep_points, texts)


def train_in_memory(
    dataset: Dataset,
    settings: Settings,
    names: Names,
    progress: Progress,
    work: Work,
    keep_points: bool,
    texts: NumberedTexts | None = None,
) -> TrainedModel:
    """Return a model in memory; see `train`."""
    check_training(dataset, settings, work, texts)
    preprocessed = preprocess_data(dataset, settings, progress, work)
    return _trained(dataset, settings, preprocessed, names, progress, work, keep_points, texts=texts)


def _check_destination(path: FilePath) -> None:
    """Raise an error if a model folder cannot be written, before data are read, which can take minutes."""
    with lock_model_folder(path):
        pass


def check_training(dataset: Dataset, settings: Settings, work: Work, texts: NumberedTexts | None = None) -> None:
    """Raise SettingsError for data that the model cannot be trained on, or a cluster that it cannot use."""
    model = MODELS[settings.model]
    if dataset.K == 0:
        raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
    if texts and not model.takes_label_texts(settings):
        raise SettingsError(
            "texts of labels need model=mlgpf with inducing=features, kernel=linear and neighbours=true, which are its "
            "defaults"
        )
    model.check_dense(settings, dataset)
    model.check_data(dataset)
    model.work_options(work)


def preprocess_data(dataset: Dataset, settings: Settings, progress: Progress, work: Work) -> Preprocessed:
    """Return the result of preprocessing as the model of the settings does it."""
    model = MODELS[settings.model]
    return model.preprocess(dataset.features, settings, progress, **model.work_options(work))


def _trained(  # noqa: PLR0913, which are all that training has
    dataset: Dataset,
    settings: Settings,
    preprocessed: Preprocessed,
    names: Names,
    progress: Progress,
    work: Work,
    keep_points: bool,
    checkpoints: CheckpointWriter | None = None,
    texts: NumberedTexts | None = None,
) -> TrainedModel:
    """Return the model that is trained on preprocessed points."""
    model = MODELS[settings.model]
    options: dict[str, Any] = model.work_options(work)
    if texts and names.vectorizer:
        options = options | {"label_texts": (texts.words(names.vectorizer), texts.labels)}
        names = names._replace(texts=texts.texts)
    parameters, history, held_out = model.train(
        dataset.features, dataset.labels, preprocessed, settings, progress, checkpoints, **options
    )
    points = arrays_of_points(dataset) if keep_points else {}
    return TrainedModel(
        settings, dataset.facts, preprocessed, parameters, history, names, held_out=held_out, points=points
    )


@dataclass(frozen=True, eq=False)
class FolderTraining:
    """Training into a locked model folder, with checkpoints some seconds apart; messages begin with the path.

    `facts` are further attributes of the `TrainedModel`.
    """

    path: Path
    dataset: Dataset
    names: Names
    checkpoint_seconds: float
    reporter: Reporter
    work: Work
    keep_points: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)
    texts: NumberedTexts | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What an interrupted run is known by: the facts of its data, and its texts of labels."""
        facts = dict(self.dataset.facts)
        return facts | {"label_texts": self.texts.fingerprint} if self.texts else facts

    def note(self, text: str) -> None:
        """Note a message about the folder."""
        self.reporter.note(f"{self.path}: {text}")

    def run(self, request: Request, resume: bool, overwrite: bool) -> TrainedModel:
        """Train, write the model and return it, and say how it went."""
        interrupted = readable_run(self.path) if resume else None
        # A run on these data has been allowed to replace the model.
        is_resumed = interrupted is not None and interrupted.data == self.identity
        folder = model_to_replace(self.path, self.dataset, overwrite, is_resumed)
        settings, notes = request.settings(self.dataset, folder)
        check_training(self.dataset, settings, self.work, self.texts)
        for text in notes:
            self.note(text)
        if resume:
            interrupted = run_to_resume(self.path, self.identity, settings, self.note)
        else:
            discard_run(self.path)
        began = time.perf_counter()
        with what_is_left(self.path, self.note):
            model = self._train(settings, folder, interrupted)
        took = f"trained in {time.perf_counter() - began:.1f} s"
        held_out = model.held_out
        # The best of a single label is no measure.
        self.note(f"{took}; {held_out.precision(self.dataset.K)}" if held_out and self.dataset.K > 1 else took)
        if held_out:
            self.note(held_out.reliability())
        description = model.folder.description if model.folder else {}
        for text in MODELS[settings.model].review(settings, description):
            self.note(text)
        self.note(next_commands(self.path, self.dataset.facts, self.names))
        return model

    def _train(self, settings: Settings, folder: ModelFolder | None, run: InterruptedRun | None) -> TrainedModel:
        """Train and write the model; what fails leaves the earlier model, and a run that can be resumed."""
        progress = self.reporter.progress
        checkpoints = None
        try:
            preprocessed, entries = self._preprocessed(settings, folder, run)
            if self.checkpoint_seconds or run:
                about = describe_run(self.identity, settings, entries)
                state = run.checkpoint if run and run.steps else None
                checkpoints = CheckpointWriter(self.path / CHECKPOINT, about, self.checkpoint_seconds, state)
                if run is None:
                    checkpoints.save()
            model = _trained(
                self.dataset,
                settings,
                preprocessed,
                self.names,
                progress,
                self.work,
                self.keep_points,
                checkpoints,
                self.texts,
            )
            model = replace(model, **self.facts)
            workers = {"workers": self.work.workers} if self.work.workers else {}
            written = write_model(model, self.path, entries, **workers)
        except BaseException as error:
            is_useless = isinstance(error, Exception) or checkpoints is None
            if is_useless and not (run or (checkpoints and checkpoints.has_state)):
                discard_run(self.path)
            raise
        remove([self.path / CHECKPOINT], ())
        return replace(model, folder=written)

    def _preprocessed(
        self, settings: Settings, folder: ModelFolder | None, run: InterruptedRun | None
    ) -> tuple[Preprocessed, Mapping[str, Any]]:
        """Return the preprocessing of an earlier run or a new one, and the entries of its arrays in the folder."""
        if run:
            return _left_by(self.path, run), run.preprocess
        if folder and folder.settings.preprocess_part() == settings.preprocess_part():
            return stored_preprocessing(folder), folder.entries("preprocess.")
        preprocessed = preprocess_data(self.dataset, settings, self.reporter.progress, self.work)
        entries: dict[str, Any] = {}
        write_arrays(self.path, named_arrays(preprocessed), entries)
        return preprocessed, entries


def _left_by(path: Path, run: InterruptedRun) -> Preprocessed:
    """Return the preprocessing that an interrupted run left in a folder."""
    try:
        return preprocessed_from(path, run.settings, run.data, run.preprocess, CHECKPOINT)
    except ModelFolderError as error:
        raise ModelFolderError(f"{error}; use `resume=False` to start a new run") from error
