"""The record that describes a model to the rest of xmlgp."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from xmlgp.errors import SettingsError
from xmlgp.runtime.memory import available_memory
from xmlgp.runtime.plurals import counted

__all__ = ["COUNT_BYTES", "MemoryPart", "Model", "check_memory"]


class MemoryPart(NamedTuple):
    """Memory that training or learning on needs for one purpose, in bytes, and what makes it smaller."""

    purpose: str
    size: int
    advice: str | None = None

    def __str__(self):
        return f"{_gigabytes(self.size)} for {self.purpose}" + (f" ({self.advice})" if self.advice else "")


#: Memory of preprocessing for each feature: the counts of two parts of the points, their sum, and a weight.
COUNT_BYTES = 32

#: Parts of the needed memory that are not worth mentioning.
SMALL_SHARE = 0.02


def _accept(dataset):
    """Accept any data set."""


def _no(settings):
    """Return False."""
    return False


def _nothing(*arguments):
    """Return no lines."""
    return ()


def _no_values(settings, N, D, K):
    """Return no values."""
    return {}


@dataclass(frozen=True)
class Model:
    """A kind of model, as the commands, the estimators and the model folder see it.

    A new model is one package with such a record, and one line in `xmlgp.models`. Features are `Features`, N×D, labels
    a csr_array of bool, N×K; parameters are a mapping of names to arrays.
    """

    #: Its subclass of `Settings`, which has the model's name as `model`.
    settings: type
    #: For the help of `--model`.
    summary: str
    #: `(features, settings, progress)` → `Preprocessed`.
    preprocess: Callable
    #: `(features, labels, preprocessed, settings, progress, checkpoints)` → `Trained`; `checkpoints` is a
    #: `CheckpointWriter` or None.
    train: Callable
    #: Its subclass of `Predictor`.
    predictor: type
    #: What training maximises: the key in each epoch of a history.
    objective: str = "bound"
    #: The name of a pass over the data.
    epoch: str = "epoch"
    #: `(dataset)` raises SettingsError for data that the model cannot be trained on.
    check_data: Callable = _accept
    #: `(settings)` → whether points may have dense features.
    takes_dense: Callable = _no
    #: `(settings, dataset)` → the `MemoryPart`s that training needs at least, of the arrays that are in memory at the
    #: same time, since `check_memory` refuses what does not fit.
    memory: Callable = _nothing
    #: `(earlier, dataset)` → the same of learning on, given an `Earlier` and the new points.
    memory_of_learning: Callable = _nothing
    #: The format of data files that this model is the default for.
    data_format: str | None = None
    #: `(settings, dataset)` → sentences to show before training.
    notes: Callable = _nothing
    #: `(settings)` → a faster choice and what it costs, in words, or None.
    faster: Callable = _nothing
    #: `(settings, N, D, K)` → the values that unset settings have for data of this shape, by name.
    unset: Callable = _no_values
    #: `(settings, description of the model folder)` → sentences to show after training.
    review: Callable = _nothing
    #: `(description of the model folder)` → titles and texts that `xmlgp show` prints.
    details: Callable = _nothing
    #: `(parameters)` → the learned hyperparameters that `xmlgp show` prints, by name.
    hyperparameters: Callable = _nothing
    #: `(earlier, features, labels, preprocessed, progress, checkpoints)` → `Trained` of a model that has learned more
    #: points; `earlier` is an `Earlier`, `preprocessed` that of all points. None if the model cannot.
    learn: Callable | None = None
    #: `(parameters, top)` → list of `Topic`, for a model that has topics.
    topics: Callable | None = None
    #: Whether `preprocess` and `train` also take `work`, a `DaskCluster` or `ThisMachine`.
    on_cluster: bool = False

    @property
    def name(self):
        """The model's name, in commands, recipes and model folders."""
        return self.settings.model

    def check_dense(self, settings, dataset):
        """Raise SettingsError if points have dense features that a model with these settings cannot use."""
        if dataset.features.dense is not None and not self.takes_dense(settings):
            raise SettingsError(
                "dense features need model=mlgpf with inducing=features and kernel=linear, which are its defaults"
            )

    def work_options(self, work):
        """Return the options (dict) of `preprocess` and `train` for where they compute; none for this machine.

        A SettingsError is raised if a cluster is given to a model that cannot use it.
        """
        if not work.is_cluster:
            return {}
        if not self.on_cluster:
            raise SettingsError(f"{self.name} is trained on one machine, not on a Dask cluster")
        return {"work": work}

    def epochs(self, entry):
        """Return the number of epochs up to an entry of a history, in words: "20 epochs", "1 iteration".

        An entry of a sweep over the labels has its number as `sweep`: "8 epochs and 2 sweeps over the labels".
        """
        sweeps = entry.get("sweep", 0)
        text = counted(entry["epoch"] - sweeps, self.epoch)
        return f"{text} and {counted(sweeps, 'sweep')} over the labels" if sweeps else text

    def objective_at(self, entry):
        """Return the objective of an entry of a history, in words: "bound -33136.6"."""
        return f"{self.objective.replace('_', ' ')} {entry[self.objective]:.6g}"

    def describe_batch(self, batch):
        """Return an entry of `learned` of a model folder in words: "20 points, 2 new labels"."""
        named = ("N", "point"), ("K", "new label"), ("D", "new feature")
        counts = [counted(batch[key], noun) for key, noun in named if batch[key]] or [counted(0, "point")]
        return ", ".join(counts)


def check_memory(work, parts):
    """Raise SettingsError if the `MemoryPart`s of some work, "training" or "learning", exceed what is available."""
    parts = sorted(parts, key=lambda part: -part.size)
    needed = sum(part.size for part in parts)
    available = available_memory()
    if available is not None and needed > available:
        listed = ", ".join(str(part) for part in parts if part.size > SMALL_SHARE * needed)
        raise SettingsError(
            f"{work} needs at least {_gigabytes(needed)} of memory, but {_gigabytes(available)} are available: {listed}"
        )


def _gigabytes(size):
    return f"{size / 1e9:.1f} GB"
