"""Learn on: go on with the trained model in a folder, which is replaced as a whole or not at all."""

import hashlib
import time
from pathlib import Path
from typing import NamedTuple

from xmlgp.data.dataset import Dataset, as_csr, check_sizes, no_points
from xmlgp.errors import SettingsError
from xmlgp.model import counted
from xmlgp.model_folder.arrays import remove
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS
from xmlgp.preprocess.pipeline import check_magnitudes, grow
from xmlgp.preprocess.weighting import sizes_of
from xmlgp.runs.interrupted import (
    CHECKPOINT,
    InterruptedRun,
    describe_run,
    readable_run,
    resume_or_discard,
    what_is_left,
)
from xmlgp.runs.stored import named_arrays, open_model
from xmlgp.runs.train import CHECKPOINT_SECONDS
from xmlgp.runtime.progress import ignore, silent
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.trained import STATISTICS, Earlier, add_statistics, statistics_of

__all__ = ["Grown", "can_learn", "learn_model", "learn_points"]


class Grown(NamedTuple):
    """A model that has learned on.

    Attributes
    ----------
    preprocessed : Preprocessed
    parameters : dict of str to ndarray
    data : dict
        Facts of all points so far, and in `first` the fingerprint of those that the model was trained on.
    batch : dict
        What was learned: `N` points, `D` new features and `K` new labels, `fingerprint` and `history`.
    """

    preprocessed: object
    parameters: dict
    data: dict
    batch: dict


def can_learn(settings):
    """Return the function with which a model learns on.

    Parameters
    ----------
    settings : Settings
        Of the model.

    Raises
    ------
    SettingsError
        If the model cannot learn on.
    """
    record = MODELS[settings.model]
    if record.learn is None:
        able = " and ".join(name for name, other in MODELS.items() if other.learn)
        raise SettingsError(
            f"a model of {record.name} cannot learn on, only {able} can; train again on all points together"
        )
    return record.learn


def learn_points(settings, preprocessed, parameters, data, dataset, progress=silent, checkpoints=None):
    """Return the model after more points (`Grown`).

    Parameters
    ----------
    settings, preprocessed, parameters
        Of the trained model.
    data : mapping
        Facts of the points so far: N, D, K, fingerprint.
    dataset : Dataset
        The new points, with at least as many features and labels. There may be none.
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional

    Raises
    ------
    SettingsError
        If the model cannot learn on, or the points have fewer features or labels, or too large features.
    NumericalError
        If the bound or a parameter becomes non-finite.
    """
    learn = can_learn(settings)
    check_sizes(dataset, data["D"], data["K"])
    counts = add_statistics(parameters, statistics_of(dataset.features, dataset.labels))
    grown = grow(preprocessed, settings, data["N"] + dataset.N, counts[STATISTICS[1]])
    check_magnitudes([sizes_of(grown.weigh(dataset.features))], "train again with another weighting")
    earlier = Earlier(settings, preprocessed, parameters, *(data[name] for name in "NDK"))
    trained = learn(earlier, dataset.features, dataset.labels, grown, progress, checkpoints)
    sizes = {"N": data["N"] + dataset.N, "D": dataset.D, "K": dataset.K}
    chain = hashlib.sha256(f"{data['fingerprint']} {dataset.fingerprint}".encode()).hexdigest()
    batch = {
        "N": dataset.N,
        "D": dataset.D - data["D"],
        "K": dataset.K - data["K"],
        "fingerprint": dataset.fingerprint,
        "history": trained.history,
    }
    facts = dict(data) | sizes
    if dataset.N:
        facts = {"first": data["fingerprint"]} | facts | {"fingerprint": chain}
    return Grown(grown, trained.parameters | counts, facts, batch)


def learn_model(
    path, dataset, names=None, progress=silent, *, resume=None, checkpoint_seconds=CHECKPOINT_SECONDS, note=ignore
):
    """Go on with the trained model in a folder.

    Parameters
    ----------
    path : path
        The model folder. Until learning succeeds it stays as it is.
    dataset : Dataset
        The new points, with at least as many features and labels as the model has. There may be none.
    names : Names, optional
        Of all labels and features; by default those of the model.
    progress : callable
        See `xmlgp.runtime.progress`.
    resume : bool, optional
        False: discard an interrupted run. Otherwise resume it if it was on the same points, and raise an error if it
        was another one of a minute or more, or if `resume` is True.
    checkpoint_seconds : float
        From one checkpoint to the next; 0 for none.
    note : callable
        Receives messages to the user, which begin with the path.

    Returns
    -------
    folder : ModelFolder
    learned : bool
        False if the model has learned these points before.

    Raises
    ------
    SettingsError
        As in `learn_points`, or if names do not go on where those of the model end.
    ModelFolderError
        If there is no trained model, another process is writing the folder, or an interrupted run is in the way.
    NumericalError
        As in `learn_points`.
    OSError
        If the folder cannot be written; the model stays, and so does the last checkpoint.
    """
    path, began = Path(path), time.perf_counter()

    def note_here(text):
        note(f"{path}: {text}")

    with lock_model_folder(path):
        folder = ModelFolder(path)
        can_learn(folder.settings)
        names = names or folder.names
        _check_names(path, names, folder.names, dataset)
        stored, data = open_model(folder), folder.description["data"]
        if dataset.N and _has_learned(folder.description, dataset):
            note_here("the model has learned these points already; nothing to do")
            run = readable_run(path)
            if run and run.learns and run.data.get("fingerprint") == dataset.fingerprint:
                # It ended between writing the model and removing this.
                remove([path / CHECKPOINT], ())
            more = len(names.labels or ())
            if more <= data["K"]:
                return folder, False
            # Names were added at the same time.
            dataset = no_points(data["D"], more)
        elif not dataset.N and dataset.shape[1:] == (data["D"], data["K"]):
            note_here("there are no points; nothing to do")
            return folder, False
        about = dataset.facts | {"learns_on": data["fingerprint"]}
        run = None if resume is False else InterruptedRun.read(path)
        run, _ = resume_or_discard(path, run, about, folder.settings, resume, note_here)
        checkpoint, checkpoints = run and run.checkpoint, None
        if checkpoint_seconds or checkpoint:
            described = describe_run(about, folder.settings, {})
            checkpoints = CheckpointWriter(path / CHECKPOINT, described, checkpoint_seconds, checkpoint)
        with what_is_left(path, note_here):
            try:
                known = folder.settings, stored.preprocessed, stored.parameters, data
                grown = learn_points(*known, dataset, progress, checkpoints)
                found = _write(folder, stored, grown, names)
            except Exception:
                if checkpoints and not checkpoints.has_state:
                    remove([path / CHECKPOINT], ())
                raise
        remove([path / CHECKPOINT], ())
    model, batch = MODELS[folder.settings.model], found.description["learned"][-1]
    note_here(f"learned {model.describe_batch(batch)}, in {time.perf_counter() - began:.1f} s")
    data = found.description["data"]
    sizes = [counted(data[key], noun) for key, noun in (("N", "point"), ("D", "feature"), ("K", "label"))]
    note_here(f"knows {sizes[0]}, {sizes[1]} and {sizes[2]}")
    if found.tuned:
        note_here("the tuned threshold is that from before; `xmlgp tune` chooses another")
    return found, True


def _check_names(path, names, known, dataset):
    """Raise SettingsError unless names are those of the model, then those of new labels and features.

    They are read with the points, before the folder is locked: another process may have added labels meanwhile.
    """
    for kind, count in ("labels", dataset.K), ("features", dataset.D):
        now, before = getattr(names, kind), getattr(known, kind)
        if (now is None) != (before is None) or (now and (len(now) != count or now[: len(before)] != before)):
            raise SettingsError(
                f"{path}: the names of {kind} are not those of the model and of the points; was it changed meanwhile?"
            )


def _has_learned(description, dataset):
    """Return whether a model has learned these points, perhaps when it had fewer features and labels."""
    data, learned = description["data"], description.get("learned", [])
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


def _write(folder, stored, grown, names):
    """Replace the model; arrays that did not change stay."""
    description = folder.description
    before = {f"parameters.{name}": value for name, value in stored.parameters.items()}
    after = named_arrays(grown.preprocessed)
    after |= {f"parameters.{name}": value for name, value in grown.parameters.items()}
    same = {name for name, value in after.items() if value is before.get(name)}
    facts = {name: description[name] for name in ("tuned", "classes") if name in description}
    return ModelFolder.write(
        folder.path,
        settings=folder.settings,
        stage="trained",
        data=grown.data,
        arrays={name: value for name, value in after.items() if name not in same},
        keep={name: entry for name, entry in folder.entries("parameters.").items() if name in same},
        history=description["history"],
        learned=[*description.get("learned", []), grown.batch],
        names=names,
        **facts,
    )
