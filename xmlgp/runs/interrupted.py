"""Whether a run starts, resumes or has nothing to do in its model folder, and what its checkpoint there says of it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset
from xmlgp.errors import ClusterError, ModelFolderError, NumericalError, SettingsError
from xmlgp.inputs.kinds import FilePath
from xmlgp.inputs.source import widths_in_words
from xmlgp.model_folder.arrays import Entry, is_entry
from xmlgp.model_folder.description import DESCRIPTION, NotADescription, is_data
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import DEFAULT_MODEL, MODELS, Recipe, check_names, check_recipe, resolve, settings_from
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.threads import core_count
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.settings.fields import Settings, in_words
from xmlgp.training.checkpoints import Checkpoint, read_checkpoint
from xmlgp.version import __version__

__all__ = [
    "CHECKPOINT",
    "Destination",
    "InterruptedRun",
    "Request",
    "advise",
    "describe_run",
    "model_is_left",
    "plan_run",
    "protected_arrays",
    "readable_run",
    "resume_or_discard",
    "what_is_left",
]

CHECKPOINT = "checkpoint.npz"

#: 7: of held-out points the measures are kept.
FORMAT_VERSION = 7

#: Seconds of training that are not discarded unless the user says so.
WORTH_KEEPING = 60


def describe_run(data: Mapping[str, Any], settings: Settings, preprocess: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint stores about a run, in JSON types.

    `preprocess` are the entries of the arrays of preprocessing in the model folder, none before it is done.
    """
    return {
        "format": "xmlgp checkpoint",
        "format_version": FORMAT_VERSION,
        "written_by": f"xmlgp {__version__}",
        "cores": core_count(),
        "model": settings.model,
        "data": dict(data),
        "settings": settings.mapping(),
        "preprocess": dict(preprocess),
    }


def _is_run(about: dict[str, Any], folder: Path) -> bool:
    """Return whether the untrusted description of a run in a model folder has what `describe_run` returns."""
    data = about.get("data")
    entries = about.get("preprocess")
    return (
        isinstance(data, dict)
        and is_data(data)
        and isinstance(entries, dict)
        # Their files are removed with the run.
        and all(is_entry(folder, entry) for entry in entries.values())
        and type(about.get("cores")) is int
        # A list, because JSON has values that cannot be hashed.
        and about.get("model") in list(MODELS)
        and isinstance(about.get("settings"), dict)
    )


def _is_progress(state: object) -> bool:
    """Return whether the untrusted facts of a state say how far it is."""
    return (
        isinstance(state, dict)
        and all(type(state.get(name)) is int for name in ("step", "steps"))
        and 0 <= state["step"] <= state["steps"]
        and type(state.get("seconds")) in (int, float)
        and state["seconds"] >= 0
    )


class InterruptedRun:
    """An interrupted run, from its `Checkpoint`; ModelFolderError for one that is damaged or of another version.

    Of `steps` steps of training `step` are done, which took `seconds`; all are 0 if training has not started.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        about = checkpoint.about
        state = checkpoint.facts
        version = about.get("format_version")
        writer = about.get("written_by")
        if about.get("format") != "xmlgp checkpoint" or version != FORMAT_VERSION:
            raise ModelFolderError(
                f"{checkpoint.path}: written in format {excerpt(version)} by {excerpt(writer)}; this is xmlgp "
                f"{__version__}, which resumes from format {FORMAT_VERSION}; use `resume=False` to start a new run"
            )
        if state is None:
            state = {"step": 0, "steps": 0, "seconds": 0.0}
        if not (_is_run(about, checkpoint.path.parent) and _is_progress(state)):
            raise checkpoint.damaged()
        self.checkpoint = checkpoint
        self.data = about["data"]
        self.preprocess = about["preprocess"]
        self.cores = about["cores"]
        self.step = state["step"]
        self.steps = state["steps"]
        self.seconds = state["seconds"]
        try:
            self.settings = settings_from(about["settings"], str(checkpoint.path), about["model"])
        except SettingsError as error:
            raise ModelFolderError(f"{error}; use `resume=False` to start a new run") from None

    @classmethod
    def read(cls, path: FilePath) -> InterruptedRun | None:
        """Return the interrupted run in a model folder, or None."""
        checkpoint = read_checkpoint(Path(path) / CHECKPOINT)
        return cls(checkpoint) if checkpoint else None

    @property
    def preprocessed(self) -> bool:
        """Whether preprocessing is done; for some models it leaves no arrays."""
        return bool(self.steps or self.preprocess)

    @property
    def where(self) -> str:
        """How far the run came, in words."""
        if not self.steps:
            return "after preprocessing" if self.preprocess else "in preprocessing"
        return f"after {self.step} of {self.steps} steps of training"

    def difference(self, data: Mapping[str, Any], settings: Settings) -> str | None:
        """Return how this run differs from another, after "a run", given the facts of its data; None if it does not."""
        if self.data != data:
            return "on other data"
        now = settings.with_model()
        # The model comes first, so all names that follow are settings of both.
        for name, value in self.settings.with_model().items():
            if value != now[name]:
                return f"with different settings ({name} {in_words(value)}, now {in_words(now[name])})"
        return None


def readable_run(path: FilePath) -> InterruptedRun | None:
    """Return the interrupted run in a model folder; None if there is none, or none that can be read."""
    try:
        return InterruptedRun.read(path)
    except (ModelFolderError, OSError):
        return None


class Destination:
    """What a locked model folder holds before a run: a model and an interrupted run, each of which is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def model(self) -> ModelFolder:
        """The model; ModelFolderError if there is none, or none that can be read."""
        return ModelFolder(self.path)

    @functools.cached_property
    def run(self) -> InterruptedRun | None:
        """The interrupted run, if there is one; ModelFolderError if it cannot be read."""
        return InterruptedRun.read(self.path)

    @property
    def readable_run(self) -> InterruptedRun | None:
        """The interrupted run, if there is one that can be read."""
        with contextlib.suppress(ModelFolderError, OSError):
            return self.run
        return None

    def check_overwriting(self, dataset: Dataset, overwrite: bool) -> None:
        """Raise ModelFolderError if writing a model of a data set here would lose one of other data.

        An interrupted run on the same data has been allowed to replace it.
        """
        try:
            folder = self.model
        except NotADescription as error:
            if overwrite:
                return
            raise ModelFolderError(f"{error}; choose another folder, or replace it with `overwrite=True`") from None
        except ModelFolderError:
            return
        data = folder.description["data"]
        run = self.readable_run
        if overwrite or folder.stage != "trained" or dataset.facts in (data, run and run.data):
            return
        facts = f"{counted(data['N'], 'point')}, last changed {_changed(self.path / DESCRIPTION)}"
        raise ModelFolderError(
            f"{self.path}: the model here was trained on other data ({facts}); choose another "
            "folder, or replace it with `overwrite=True`"
        )

    def check_dense(self, dataset: Dataset, overwrite: bool, note: Callable[[str], object]) -> None:
        """Raise ModelFolderError if training would drop the dense features with which the points were preprocessed.

        Nobody would notice a forgotten option, as training preprocesses again what differs. Where the points have dense
        features now alone, note that it does.
        """
        try:
            data = self.model.description["data"]
            stage = self.model.stage
        except ModelFolderError:
            return
        run = self.readable_run
        before = data.get("dense", [])
        now = dataset.features.widths
        is_resumed = run is not None and run.data == dataset.facts
        has_same_sizes = (data["N"], data["K"]) == (dataset.N, dataset.K)
        if stage == "trained" or before == now or is_resumed or not has_same_sizes:
            return
        if not before:
            note("the points were preprocessed without dense features, so they are preprocessed again")
        elif not overwrite:
            present = f"have {widths_in_words(now)}" if now else "have none"
            raise ModelFolderError(
                f"{self.path}: the points were preprocessed with {widths_in_words(before)}, but now {present}; give "
                "the same by `dense=FILE` or `encoder=NAME`, or have them preprocessed again by `overwrite=True`"
            )


def protected_arrays(path: FilePath) -> Iterable[Entry]:
    """Return the entries of the arrays in a model folder that its interrupted run needs."""
    run = readable_run(path)
    return run.preprocess.values() if run else ()


def resume_or_discard(
    destination: Destination,
    run: InterruptedRun | None,
    data: Mapping[str, Any],
    settings: Settings,
    resume: bool | None,
    note: Callable[[str], object],
) -> tuple[InterruptedRun | None, InterruptedRun | None]:
    """Return the interrupted run in a folder that is resumed, or None, and the one that is discarded, or None.

    `run` is the one in the folder, or None to discard it; `data` are the facts of the new data. The same run is
    resumed; another one is discarded if it took less than a minute and `resume` is None, else a ModelFolderError.
    """
    path = destination.path
    discarded = run or destination.readable_run
    if run:
        difference = run.difference(data, settings)
        if difference is None:
            note(f"resuming {run.where}")
            if run.cores != core_count():
                note(
                    f"the checkpoint used {run.cores} threads, this run uses {core_count()}; "
                    f"results may differ in the last digits, but not with --threads {run.cores}"
                )
            return run, None
        if resume or run.seconds >= WORTH_KEEPING:
            finish = "as it was started" if resume else "with `resume=True`"
            raise ModelFolderError(
                f"{path}: an unfinished run {difference} exists, which stopped {run.where}; "
                f"finish it {finish}, or discard it with `resume=False`"
            )
    elif resume:
        note("no checkpoint found; starting a new run")
    if discarded:
        note(f"discarding the run that was interrupted {discarded.where}")
    return None, discarded


def advise(error: BaseException, advice: str | None, resumable: bool) -> None:
    """Say in an interruption, one of Python's own too, how things stand, and whether the run can be resumed."""
    vars(error).update(advice=advice, resumable=resumable)


@contextlib.contextmanager
def what_is_left(path: Path, note: Callable[[str], object]) -> Iterator[None]:
    """Say how far a run came that fails or is interrupted: in a message, or as advice of the interruption."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        run = readable_run(path)
        if run:
            advise(error, f"stopped {run.where}", resumable=True)
        raise
    except (ClusterError, NumericalError, OSError, MemoryError):
        run = readable_run(path)
        if run and run.steps:
            note(f"the checkpoint {run.where} is kept; run the command again to resume")
        raise


@contextlib.contextmanager
def model_is_left(path: FilePath) -> Iterator[None]:
    """Say whether the model in a folder is as it was when its change is interrupted; in Python, below the traceback."""
    before = ModelFolder(path).description
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        stopped = getattr(error, "advice", None)
        resumable = getattr(error, "resumable", False)
        advice = f"{stopped}, and the model is unchanged" if stopped else "the model is unchanged"
        if ModelFolder(path).description != before:
            advice = "the new model is complete"
            resumable = False
        advise(error, advice, resumable)
        # Python 3.10 has no notes.
        if isinstance(error, KeyboardInterrupt) and hasattr(error, "add_note"):
            error.add_note(f"{path}: {advice}{'; learn the same points again to resume' if resumable else ''}")
        raise


class Request(NamedTuple):
    """A user's request for training; recipes and defaults fill in the rest.

    `chosen` are settings by name, and the `model` if that was chosen, or complete `Settings`, which are taken as they
    are. `default_model` is that for the format of the data, if the user chooses neither a model nor a recipe.
    `overwrite` allows to replace a model of other data.
    """

    chosen: Mapping[str, Any] | Settings
    recipe: Recipe | None = None
    default_model: str | None = None
    overwrite: bool = False

    def asked(self, dataset: Dataset) -> Mapping[str, Any]:
        """Return all settings that the user asked for, those of the recipe included, with the model."""
        if isinstance(self.chosen, Settings):
            return self.chosen.with_model()
        if not self.recipe:
            return self.chosen
        return resolve(load_catalogue(), self.recipe, dataset.shape, self.chosen)[0].with_model()

    def settings(self, dataset: Dataset) -> tuple[Settings, list[str]]:
        """Return complete settings for a data set, and messages to the user about their origin."""
        chosen = self.chosen
        notes: list[str] = []
        if isinstance(chosen, Settings):
            return chosen, notes
        if self.default_model and not self.recipe and "model" not in chosen:
            chosen = {"model": self.default_model, **chosen}
            if self.default_model != DEFAULT_MODEL:
                notes.append(f"the model is {self.default_model}, the default for data of this format")
        settings, entry = resolve(load_catalogue(), self.recipe, dataset.shape, chosen)
        if entry and self.recipe:
            notes.append(f"recipe {self.recipe} of the model {settings.model} with its settings for {entry.name}")
        return settings, notes

    def over(self, folder: ModelFolder) -> Settings | None:
        """Return the settings of a preprocessed model with those chosen in their place, or None if others are asked."""
        if self.recipe or isinstance(self.chosen, Settings):
            return None
        if self.chosen.get("model", folder.settings.model) != folder.settings.model:
            return None
        return settings_from({**folder.settings.with_model(), **self.chosen}, str(folder.path))


def check_recipe_is_known(recipe: Recipe | None) -> None:
    """Raise SettingsError for a recipe that is unknown, before data are read, which can take minutes."""
    if recipe is not None:
        check_recipe(load_catalogue(), recipe)


class RunPlan(NamedTuple):
    """A training run: its settings, the model folder with their preprocessing, and the runs to resume and to discard.

    All but the settings may be None.
    """

    settings: Settings
    preprocessed: ModelFolder | None
    interrupted: InterruptedRun | None
    discarded: InterruptedRun | None


def _changed(file: Path) -> str:
    """Return in words when a file was changed."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(file.stat().st_mtime))
    except (OSError, OverflowError, ValueError):  # file systems have times that calendars do not
        return "at an unknown time"


def plan_run(
    destination: Destination, dataset: Dataset, request: Request, resume: bool | None, note: Callable[[str], object]
) -> RunPlan | None:
    """Return the plan for a folder, or None if `resume` and the model is trained as asked.

    With `resume` True, an interrupted run is resumed with its settings; for the rest see `resume_or_discard`. A
    SettingsError is raised for settings that are not allowed, or that contradict what is to be kept.
    """
    destination.check_overwriting(dataset, request.overwrite)
    destination.check_dense(dataset, request.overwrite, note)
    path = destination.path
    folder = None
    notes: list[str] = []
    try:
        folder = destination.model
    except ModelFolderError as error:
        if ModelFolder.exists(path):
            note(f"the existing model cannot be read and will be replaced ({error})")
    same = folder if folder and _is_of(folder, dataset) else None
    settings: Settings | None = None
    run = None if resume is False else destination.run
    if resume and run:
        settings = run.settings
        _check_same(path, "the interrupted run", settings, request.asked(dataset))
    elif resume and not run and same and same.stage == "trained":
        _check_same(path, "the model", same.settings, request.asked(dataset))
        # Damaged arrays raise an error.
        same.arrays("")
        note("already trained; nothing to resume")
        return None
    else:
        settings = request.over(same) if same and same.stage == "preprocessed" else None
        if settings is None:
            settings, notes = request.settings(dataset)
    is_usable = same and same.settings.preprocess_part() == settings.preprocess_part()
    runs = resume_or_discard(destination, run, dataset.facts, settings, resume, note)
    plan = RunPlan(settings, same if is_usable else None, *runs)
    if not isinstance(request.chosen, Settings):
        unused = settings.unused()
        notes += [f"{name} has no effect with {unused[name]}" for name in sorted(unused.keys() & set(request.chosen))]
    for text in [*notes, *MODELS[settings.model].notes(settings, dataset)]:
        note(text)
    return plan


def _is_of(folder: ModelFolder, dataset: Dataset) -> bool:
    """Return whether a folder has a model of a data set, or its preprocessing."""
    return bool(folder.description["data"] == dataset.facts)


def _check_same(path: Path, what: str, settings: Settings, asked: Mapping[str, Any]) -> None:
    """Raise SettingsError if settings are not as asked."""
    present = settings.with_model()
    if asked.get("model", settings.model) == settings.model:
        check_names(asked.keys() - {"model"}, str(path), settings.model)
    # The other settings of another model do not matter.
    for name in sorted(asked, key="model".__ne__):
        if asked[name] != present[name]:
            was = in_words(present[name])
            now = in_words(asked[name])
            difference = f"is of {was}" if name == "model" else f"has {name} {was}"
            raise SettingsError(
                f"{path}: {what} {difference}, not {now}; leave the option out, or use `resume=False` to start "
                "a new run"
            )
