"""The façade: what the command line does, for Python users. `import xmlgp` has all of it."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset, no_points
from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import open_output
from xmlgp.errors import ModelFolderError, SettingsError, UsageError, XmlgpError
from xmlgp.metrics.evaluation import Evaluation
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.model import counted
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS, default_model
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.predictor import MEMORY, Predictor
from xmlgp.prediction.scores_file import Scores, read_scores
from xmlgp.prediction.tuning import Tuned
from xmlgp.prediction.tuning import tune as tune_predictor
from xmlgp.preprocess.pipeline import Preprocessed
from xmlgp.runs.evaluate import check_label_count, check_probabilities, evaluate_named
from xmlgp.runs.given import (
    is_path,
    known_points,
    label_of,
    labels_in_memory,
    more_labels,
    more_points,
    open_given,
    training_points,
)
from xmlgp.runs.interrupted import readable_run
from xmlgp.runs.labels import allowed_labels
from xmlgp.runs.learn import can_learn, learn_model, learn_points
from xmlgp.runs.predict import Predictions, StoredPredictor
from xmlgp.runs.preprocess import check_data, preprocess_model
from xmlgp.runs.request import Request
from xmlgp.runs.save import save_model
from xmlgp.runs.stored import open_model
from xmlgp.runs.train import CHECKPOINT_SECONDS, train_model
from xmlgp.runs.tune import tune_model
from xmlgp.runtime.progress import ignore, silent
from xmlgp.settings.fields import Settings
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions
from xmlgp.text.names import Names
from xmlgp.text.points import read_known_data, read_vectorized_data
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE, ThisMachine

__all__ = [
    "Evaluation",
    "Predictions",
    "TrainedModel",
    "Tuned",
    "evaluate",
    "learn",
    "load",
    "predict",
    "preprocess",
    "report",
    "train",
    "tune",
]

FilePath: TypeAlias = "str | os.PathLike[str]"
Matrix: TypeAlias = "np.ndarray | sp.sparray | sp.spmatrix"

#: Points: a file or folder as for the command line, features (N×D), texts, or a data set.
Points: TypeAlias = "FilePath | Matrix | Sequence[str] | Dataset"

#: Labels of points that are no file: N×K, nonzero where a point has a label, or the names of the labels of each point.
Labels: TypeAlias = "Matrix | Sequence[Sequence[str]]"

#: Labels of a ranking by default.
RANKED = 5


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
    predictor : Predictor
    names : Names
        Of labels and features, and what maps text to features; each may be None.
    tuned : Tuned or None
        What `tune` chose.
    learned : list of dict
        What each `learn` added.
    folder : ModelFolder or None
    """

    settings: Settings
    data: dict[str, Any]
    preprocessed: Preprocessed
    parameters: dict[str, np.ndarray]
    history: list[dict[str, Any]]
    predictor: Predictor
    names: Names
    tuned: Tuned | None = None
    learned: list[dict[str, Any]] = field(default_factory=list)
    folder: ModelFolder | None = None

    def predict(self, data: Points, **options: Any) -> Predictions:
        """Return the labels of points; see `xmlgp.predict`."""
        return predict(self, data, **options)

    def explain(self, data: Points, words: int = 3, k: int = RANKED, **options: Any) -> list[dict[str, Any]]:
        """Return the k best labels of each point, with the features that speak most for and against each.

        Parameters
        ----------
        data : path, matrix N×D or list of str
        words, k : int
            The number of features of each kind, and of labels.
        **options
            Of `xmlgp.predict`.
        """
        return list(predict(self, data, k=k, explain=words, **options))

    def save(self, path: FilePath) -> None:
        """Write the model into a folder, for `load` and all commands.

        A model in it is replaced as a whole; an interrupted run stays.

        Raises
        ------
        ModelFolderError
            If the path is one of a file, or another process is writing the folder.
        OSError
            If the folder cannot be written; its earlier content stays.
        """
        facts = {"learned": self.learned} if self.learned else {}
        if self.folder and self.folder.classes:
            facts["classes"] = self.folder.description["classes"]
        trained = Trained(self.parameters, self.history)
        save_model(path, self.settings, self.data, self.preprocessed, trained, self.tuned, self.names, **facts)

    def __str__(self) -> str:
        return str(self.folder.path) if self.folder else "the model"


def load(path: FilePath) -> TrainedModel:
    """Return the model in a folder.

    The folder is not trusted: it holds no code, and its content is checked.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFolderError
        If there is no model, or it is not trained yet, damaged or of another version.
    """
    try:
        folder, stored, names = ModelFolder.read(path, lambda folder: (folder, open_model(folder), folder.names))
    except ModelFolderError as error:
        if readable_run(path) is None:
            raise
        command = shlex.join(["xmlgp", "show", os.fspath(path)])
        raise ModelFolderError(f"{error}; the folder has an unfinished run, see `{command}`") from None
    about = folder.description
    learned = about.get("learned", [])
    known = folder.settings, about["data"], stored.preprocessed, stored.parameters, about["history"], stored.predictor
    return TrainedModel(*known, names, folder.tuned, learned, folder)


def preprocess(
    data: Points,
    path: FilePath,
    *,
    labels: Labels | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> ModelFolder:
    """Preprocess points into a model folder, from which `train` continues.

    The parameters are those of `train`. A model in the folder is replaced; an interrupted run stays.
    """
    found = training_points(data, labels, path, corpus, cache, progress, note, work)
    request = _request(settings, recipe, found.format)
    chosen, notes = request.settings(found.dataset)
    for text in notes:
        note(f"{path}: {text}")
    return preprocess_model(found.dataset, path, chosen, progress, work)


def train(
    data: Points,
    path: FilePath | None = None,
    *,
    labels: Labels | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    recipe: str | None = None,
    resume: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> TrainedModel:
    """Train a model, in memory or into a folder.

    Parameters
    ----------
    data : path, matrix N×D, list of str or Dataset
        The training points; a path as for `xmlgp train`.
    path : path, optional
        The model folder; created if missing. Until training succeeds, its earlier content stays. Preprocessing of the
        same data in it is used, and a run that was interrupted resumes from its last checkpoint and ends in the same
        model.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    settings : mapping, optional
        Settings by name, see `xmlgp settings`, and perhaps the `model`: "mlgpf", "bmlpl" or "gpc". A `Settings` object
        is taken as it is.
    recipe : str, optional
        Named settings of the catalogue, which `settings` override.
    resume : bool, optional
        True: resume an interrupted run with its settings; do nothing if the model is trained as asked. False: discard
        an interrupted run. None: resume an interrupted run of the same data and settings; another one is discarded, but
        an error if it took a minute or more.
    checkpoint_seconds : float
        From one checkpoint to the next within an epoch; 0 for none.
    corpus : CorpusOptions
        Where a file of text has its texts and labels; any of it makes the file a corpus.
    cache : bool
        Whether to keep a parsed copy of a file, and to use it while the file is unchanged.
    progress : callable
        See `xmlgp.runtime.progress`.
    note : callable
        Receives messages.
    work : ThisMachine or DaskCluster
        Where to train, see `xmlgp.work.connection.open_work`.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        For settings that are not allowed or contradict what is to be resumed, for points that the model cannot be
        trained on, or training that does not fit into memory.
    ModelFolderError
        If another process is writing the folder, or an interrupted run is damaged or worth keeping.
    NumericalError
        If training diverges.
    ClusterError
        If the cluster is lost; the last checkpoint stays.
    """
    found = training_points(data, labels, path, corpus, cache, progress, note, work)
    request = _request(settings, recipe, found.format)
    if path is not None:
        options = {"resume": resume, "checkpoint_seconds": checkpoint_seconds, "names": found.names}
        train_model(found.dataset, path, request, progress, note=note, work=work, **options)
        return load(path)
    dataset = found.dataset
    chosen, notes = request.settings(dataset)
    for text in notes:
        note(text)
    check_data(dataset, chosen, work)
    model = MODELS[chosen.model]
    model.check_memory(chosen, dataset)
    where = model.work_options(work)
    preprocessed = model.preprocess(dataset.features, chosen, progress, **where)
    trained = model.train(dataset.features, dataset.labels, preprocessed, chosen, progress, None, **where)
    predictor = model.predictor(chosen, preprocessed, trained.parameters, dataset.D)
    return TrainedModel(
        chosen, dataset.facts, preprocessed, trained.parameters, trained.history, predictor, found.names
    )


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
    data : path, matrix n×D, list of str or Dataset, optional
        New points only; they may have more features and labels. Points that a folder has learned already are not
        learned twice.
    labels : matrix n×K or list of list of str, optional
        Of points that are a matrix or texts.
    add_labels : path or list of str, optional
        Names of labels to add: a file with a name a line, or the names.
    resume : bool, optional
        False: discard an interrupted run. Otherwise resume it if it was on the same points; another one is discarded if
        it took less than a minute and `resume` is None.
    checkpoint_seconds, corpus, cache, progress, note
        As for `train`.

    Returns
    -------
    TrainedModel
        The model that has learned.

    Raises
    ------
    UsageError
        If there is nothing to learn.
    SettingsError
        If the model cannot learn on, or the points have fewer features or labels than the model.
    ModelFolderError, DataFormatError, NumericalError
        As for `train`.
    """
    if data is None and add_labels is None:
        raise UsageError("Nothing to learn: give data, or labels to add.")
    folder = model.folder if isinstance(model, TrainedModel) else ModelFolder(model)
    about: Any = folder or model
    can_learn(about.settings)
    known = folder.description["data"] if folder else about.data
    names, D, K = about.names, known["D"], known["K"]
    if add_labels is not None:
        before, names = K, more_labels(names, K, add_labels)
        K = len(names.labels)
        if data is None and before == K:
            note(f"{model}: the model has these labels already; nothing to do")
            return model if isinstance(model, TrainedModel) else load(model)
    if data is None:
        dataset = no_points(D, K)
    else:
        path = folder and folder.path
        dataset, names = more_points(data, labels, path, names, D, K, corpus, cache, progress, note)
    if folder:
        options = {"resume": resume, "checkpoint_seconds": checkpoint_seconds, "note": note}
        learn_model(folder.path, dataset, names, progress, **options)
        return load(folder.path)
    grown = learn_points(about.settings, about.preprocessed, about.parameters, about.data, dataset, progress)
    predictor = MODELS[about.settings.model].predictor(about.settings, grown.preprocessed, grown.parameters, dataset.D)
    arrays = grown.preprocessed, grown.parameters, about.history
    learned = [*about.learned, grown.batch]
    return TrainedModel(about.settings, grown.data, *arrays, predictor, names, about.tuned, learned)


def predict(
    model: FilePath | TrainedModel,
    data: Points,
    *,
    k: int | str | None = None,
    threshold: float | None = None,
    limit: int | None = None,
    assign: bool = False,
    output: str | None = None,
    calibrated: bool = True,
    only: FilePath | Sequence[str | int] | None = None,
    without: FilePath | Sequence[str | int] | None = None,
    explain: int | None = None,
    with_std: bool = False,
    memory: int = MEMORY,
    corpus: CorpusOptions = NO_OPTIONS,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
    work: ThisMachine = THIS_MACHINE,
) -> Predictions:
    """Return the labels of points, a ranking or those assigned.

    With k, every point has as many labels, a ranking. A threshold assigns the labels with at least this score, a limit
    at most so many, `assign` those of the highest expected F1. Without any of these, the threshold and the limit that
    `tune` chose apply, and without them the 5 best labels are listed.

    Parameters
    ----------
    model : path or TrainedModel
    data : path, matrix N×D, list of str or Dataset
        A path as for `xmlgp predict`. It is read when the labels are asked for.
    k : int or "all", optional
    threshold : float, optional
    limit : int, optional
    assign : bool
    output : str, optional
        "probability" or "utility", by which labels are ranked. Default: as the model was trained for.
    calibrated : bool
        Whether probabilities are calibrated.
    only, without : path or list of (str or int), optional
        The labels that are considered, and those that are left out: a file with a label a line, or their names or
        numbers.
    explain : int, optional
        The number of features that speak for each label, and against it, to list.
    with_std : bool
        Whether scores have standard deviations.
    memory : int
        Megabytes that scoring may take besides the model.
    corpus, progress, note, work
        As for `train`.

    Returns
    -------
    Predictions
        Iterate over it, or call its `matrix` or `write`.

    Raises
    ------
    UsageError
        For arguments that contradict each other.
    ModelFolderError
        As for `load`.
    SettingsError
        If the model cannot explain, or no label is allowed.
    """
    if k is not None and (threshold is not None or limit or assign):
        raise UsageError("k is for rankings; with a threshold or assign, the limit gives at most so many labels.")
    if assign and threshold is not None:
        raise UsageError("assign and threshold exclude each other.")
    if assign and output == "utility":
        raise UsageError("assign needs probabilities, not utilities.")
    model = _opened(model)
    predictor = model.predictor
    if explain:
        predictor.check_explainable()
    uncalibrated = not calibrated and predictor.calibration is not None
    output = "probability" if assign else output or predictor.default_output
    if not calibrated and not (uncalibrated and output == "probability"):
        note("utilities are not calibrated anyway" if uncalibrated else f"{model} has no calibration to leave out")
    if threshold is not None and output == "probability" and not 0 <= threshold <= 1:
        raise UsageError(f"the threshold {threshold:g} is not a probability from 0 to 1.")
    if k is not None:
        rule = AssignmentRule(limit=None if k == "all" else int(k))
    elif threshold is None and limit is None and not assign:
        rule = _default_rule(model, output, uncalibrated, note)
    else:
        rule = AssignmentRule(threshold, limit, assign)
    allowed = allowed_labels(only, without, predictor.label_count, model.names.labels)
    options = {"with_std": with_std, "memory": memory, "calibrated": calibrated, "allowed": allowed, "work": work}

    @contextlib.contextmanager
    def source():
        with open_given(data, None, model.names, predictor.feature_count, corpus, False, note) as points:
            _check_points(points, model, data, note)
            yield points

    stored = StoredPredictor(predictor, _folder_for(model, work))
    about = model.names, source, label_of(data), rule, output, explain, options
    return Predictions(stored, *about, progress, note)


def tune(
    model: FilePath | TrainedModel,
    data: Points,
    *,
    labels: Labels | None = None,
    metric: str = "f1-micro",
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Tuned:
    """Choose the threshold and the limit of highest F1 by which `predict` assigns labels; the model keeps them.

    Parameters
    ----------
    model : path or TrainedModel
        Its folder stores what is chosen, if it has one.
    data : path, matrix N×D, list of str or Dataset
        Points that the model was not trained on; a path as for `xmlgp tune`.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    metric : str
        "f1-micro", F1 over all pairs of point and label; "f1-macro", the mean over labels; "f1-point", over points.
    corpus, cache, progress, note
        As for `train`.

    Raises
    ------
    SettingsError
        If the points do not fit the model, no point has a label, or the model has one label.
    ModelFolderError
        As for `load`, or if another process is writing the folder.
    """
    folder = model.folder if isinstance(model, TrainedModel) else ModelFolder(model)
    about: Any = folder or model
    dataset = known_points(data, labels, "validation", about.names, corpus, cache, progress)
    trained_on = folder.description["data"] if folder else about.data
    if dataset.fingerprint == trained_on["fingerprint"]:
        note(f"{label_of(data)} has the points that {model} was trained on; held-out points give a better threshold")
    try:
        if folder:
            tuned = tune_model(dataset, folder.path, metric, progress).tuned
        else:
            tuned = tune_predictor(about.predictor, dataset.features, dataset.labels, metric, progress=progress)
    except SettingsError as error:
        raise SettingsError(f"{label_of(data)}: {error}") from None
    if isinstance(model, TrainedModel):
        model.tuned = tuned
    return tuned


def evaluate(
    scores: FilePath | Matrix | Scores | Predictions,
    labels: FilePath | Labels | Dataset,
    *,
    train: FilePath | Dataset | TrainedModel | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    auc: bool = False,
    calibration: bool = False,
    reliability: bool = False,
    assigned: bool = False,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Evaluation:
    """Compare scores with the true labels.

    Parameters
    ----------
    scores : path, matrix N×K, Scores or Predictions
        A scores file, or what `predict` returns.
    labels : path, matrix N×K or Dataset
        The true labels; a path as for `xmlgp evaluate`.
    train : path, Dataset or TrainedModel, optional
        The training points or the model, for propensity-scored measures and reliability by frequency.
    ks : sequence of int
        Values of k of the measures @k, in ascending order.
    propensity_a, propensity_b : float, optional
        Of the propensity model. Default: those of the catalogue for data of the same shape, or 0.55 and 1.5.
    auc, calibration, reliability : bool
        Whether to compute the area under the ROC curve; log loss and calibration error; how often labels of each rank
        are true. The last two need probabilities.
    assigned : bool
        Whether all labels in `scores` are assigned: precision, recall and F1.
    cache, progress, note
        As for `train`.

    Raises
    ------
    DataFormatError
        If a file is malformed; it names the line.
    SettingsError
        If the shapes disagree, or a measure is undefined.
    UsageError
        If a propensity model is given without training points.
    """
    if train is None and (propensity_a or propensity_b):
        raise UsageError("A propensity model needs training points.")
    name, read = label_of(scores, "the scores"), _scores_of(scores, progress)
    if (calibration or reliability) and not assigned:
        check_probabilities(read, name)
    true = _true_labels(labels, cache, progress)
    training = None
    if train is not None:

        def training():
            return label_of(train, "the model"), *_training_counts(train, cache, progress)

    wanted = {"auc": auc, "calibration": calibration, "reliability": reliability, "assigned": assigned}
    names = name, label_of(labels, "the data")
    return evaluate_named(read, true, names, training, ks, (propensity_a, propensity_b), **wanted, note=note)


def report(
    model: FilePath | TrainedModel,
    data: Points,
    out: FilePath | None = None,
    *,
    labels: Labels | None = None,
    train: Points | None = None,
    label_names: FilePath | Sequence[str] | None = None,
    title: str | None = None,
    seed: int = 0,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> str:
    """Return an HTML page about how a model does on points whose labels are known, and write it if asked.

    Parameters
    ----------
    model : path or TrainedModel
    data : path, matrix N×D, list of str or Dataset
        A path as for `xmlgp report`.
    out : path, optional
        Where to write the page; `-` for standard output.
    labels : matrix N×K or list of list of str, optional
        Of points that are a matrix or texts.
    train : path or Dataset, optional
        The training points. Default: those beside `data`, if the model was trained on them.
    label_names : path or list of str, optional
        K names, or a file with a name a line. Default: those of the model.
    title : str, optional
    seed : int
        Of the sample of documents.
    corpus, cache, progress, note
        As for `train`.

    Raises
    ------
    SettingsError
        If the model has one label, the points do not fit it, or no point has a true label.
    XmlgpError
        If Jinja2 is not installed.
    """
    from xmlgp.reporting.report import check_available, make_report

    check_available()
    model = _opened(model)
    K = model.predictor.label_count
    if K < 2:
        raise SettingsError(f"{model}: a report needs a model of two labels or more, but this one has 1 label")
    name = locate(os.fspath(data), "test") if is_path(data) else label_of(data)
    names = read_label_names(label_names, K) if is_path(label_names) else label_names
    with open_output(out) if out is not None else contextlib.nullcontext() as stream:
        training = _training_data_of(model, train, data, corpus, cache, progress, note)
        counts = None if training is None else np.bincount(training.labels.indices, minlength=K)

        def blocks():
            with open_given(data, labels, model.names, model.predictor.feature_count, corpus, True, note) as points:
                _check_points(points, model, data, None)
                for block in points.blocks():
                    yield block.points, block.texts, block.ids

        page = make_report(
            model.predictor,
            blocks(),
            title=title or (model.folder.path.resolve().name if model.folder else "Model"),
            facts=_facts(model, name, training),
            names=names or model.names.labels,
            feature_names=model.names.features,
            tuned=model.tuned,
            counts=counts,
            propensities=None if training is None else _propensities(training, counts, note),
            seed=seed,
            progress=progress,
            note=note,
        )
        if stream:
            stream.write(page.encode())
    return page


def _request(settings, recipe, data_format):
    if isinstance(settings, Settings):
        return Request.exactly(settings)
    return Request(dict(settings or {}), recipe, default_model(data_format))


def _opened(model: FilePath | TrainedModel) -> TrainedModel:
    return model if isinstance(model, TrainedModel) else load(model)


def _check_points(points, model, data, note):
    """Raise SettingsError for points of other features, or of other labels unless there is a `note` of them."""
    predictor, name = model.predictor, label_of(data)
    try:
        predictor.check(points.D)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
    text = f"{name} has {counted(points.K, 'label')}, but the model was trained on {predictor.label_count}"
    if note is None and predictor.label_count != points.K:
        raise SettingsError(text)
    if note and not points.is_text and points.K not in (0, predictor.label_count):
        note(text)


def _folder_for(model, work):
    """Return the folder from which the workers of a cluster open a model; None on this machine."""
    if model.folder or not work.is_cluster:
        return model.folder
    path = work.new_folder()
    model.save(path)
    return ModelFolder(path)


def _default_rule(model, output, uncalibrated, note):
    """Return the tuned rule if there is one for this output, otherwise a ranking."""
    tuned = model.tuned
    if tuned is None:
        return AssignmentRule(limit=RANKED)
    if tuned.output != output or (uncalibrated and output == "probability"):
        of = f"the output {tuned.output}" if tuned.output != output else "calibrated probabilities"
        note(f"{model} is tuned for {of}; listing the {RANKED} best labels")
        return AssignmentRule(limit=RANKED)
    note(f"{model} is tuned for {tuned.metric}: assigning labels of {tuned}; k ranks labels instead")
    return tuned.rule


def _scores_of(scores, progress):
    """Return `Scores` of a file, of `Predictions` or of a matrix."""
    if is_path(scores):
        return read_scores(os.fspath(scores), progress)
    if isinstance(scores, Scores):
        return scores
    matrix = sp.csr_array(scores.matrix() if isinstance(scores, Predictions) else scores)
    return Scores(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])


def _true_labels(labels, cache, progress):
    if is_path(labels):
        return read_vectorized_data(labels, "test", cache, progress).labels
    return labels.labels if isinstance(labels, Dataset) else labels_in_memory(labels, np.shape(labels)[0])


def _training_counts(train, cache, progress):
    """Return N, D and K of the training points, and how many have each label: of data, or of a model."""
    if is_path(train) and ModelFolder.exists(train):
        folder = ModelFolder(train)
        data, counts = folder.description["data"], folder.array("parameters.statistics.labels")
    elif isinstance(train, TrainedModel):
        data, counts = train.data, train.parameters.get("statistics.labels")
    else:
        points = train if isinstance(train, Dataset) else read_vectorized_data(train, "train", cache, progress)
        return points.shape, np.bincount(points.labels.indices, minlength=points.K)
    shape = tuple(data[name] for name in "NDK")
    if counts is None or counts.shape != shape[2:]:
        raise SettingsError(f"{train}: the model has no counts of its labels; give the training data instead")
    return shape, np.array(counts)


def _training_data_of(model, train, data, corpus, cache, progress, note):
    """Return the training data as given, or those beside the test data if the model was trained on them, or None."""
    if train is not None:
        training = known_points(train, None, "train", model.names, corpus, cache, progress)
        check_label_count(label_of(train, "the training data"), training.K, model.data["K"], str(model))
        return training
    file = None
    if is_path(data) and os.path.isdir(data):
        # A folder may well have test data only.
        with contextlib.suppress(XmlgpError):
            file = locate(os.fspath(data), "train")
    if file is not None:
        training = read_known_data(file, "train", model.names, NO_OPTIONS, cache, progress)
        if training.fingerprint == model.data["fingerprint"]:
            return training
        note(f"{model} was not trained on {file}; --train names its training data")
    note("Without training data, labels are grouped by their frequency in the test data, and there is no PSP")
    return None


def _propensities(training, counts, note):
    """Return the propensities of the labels, or None if there are too few training points for them."""
    try:
        return estimate_propensities(counts, training.N, training.D).values
    except SettingsError as error:
        note(f"There is no PSP: {error}")
        return None


def _facts(model, name, training):
    facts = [("Model", f"{model} ({model.settings.model})"), ("Test data", "standard input" if name == "-" else name)]
    facts.append(("Training documents", f"{model.data['N']:,}"))
    if training is not None:
        unseen = training.K - len(np.unique(training.labels.indices))
        facts.append(("Labels that no training document has", f"{unseen:,}"))
    if model.folder:
        facts.append(("Written by", model.folder.description["written_by"]))
    return facts
