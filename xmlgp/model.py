"""The record that describes a model to the rest of xmlgp."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from xmlgp.errors import SettingsError
from xmlgp.runtime.memory import available_memory

__all__ = ["MemoryPart", "Model", "counted"]


class MemoryPart(NamedTuple):
    """Memory that training needs for one purpose.

    Attributes
    ----------
    purpose : str
    size : int
        Bytes.
    advice : str, optional
        Which option makes it smaller.
    """

    purpose: str
    size: int
    advice: str | None = None

    def __str__(self):
        return f"{_gigabytes(self.size)} for {self.purpose}" + (f" ({self.advice})" if self.advice else "")


#: Parts of the needed memory that are not worth mentioning.
SMALL_SHARE = 0.02


def _accept(dataset):
    """Accept any data set."""


def _nothing(*arguments):
    """Return no lines."""
    return ()


@dataclass(frozen=True)
class Model:
    """A kind of model, as the commands, the estimators and the model folder see it.

    A new model is one package with such a record, and one line in `xmlgp.models`.

    Attributes
    ----------
    settings : type
        Its subclass of `Settings`; the model has the name that this class has as `model`.
    summary : str
        Description of the model, for the help of `--model`.
    preprocess : callable
        `preprocess(features, settings, progress)` returns a `Preprocessed`; features are a csr_array, N×D. With
        `on_cluster` it and `train` also take `work`, a `DaskCluster` or `ThisMachine`.
    train : callable
        `train(features, labels, preprocessed, settings, progress, checkpoints)` returns a `Trained`; labels are a
        csr_array of bool, N×K, and `checkpoints` is a `CheckpointWriter` or None.
    predictor : type
        Its subclass of `Predictor`.
    objective : str
        The objective that training maximises: its key in each epoch of a history.
    epoch : str
        The name of a pass over the data.
    check_data : callable
        `check_data(dataset)` raises `SettingsError` for data that the model cannot be trained on.
    memory : callable
        `memory(settings, dataset)` returns the memory that training needs at least (iterable of `MemoryPart`). It
        counts no more than what is in memory at the same time, since `check_memory` refuses what does not fit. By
        default nothing is refused.
    data_format : str, optional
        The format of data files that this model is the default for.
    notes : callable
        `notes(settings, dataset)` returns sentences to show before training.
    review : callable
        `review(settings, description)` returns sentences to show after training; the description is that of the model
        folder.
    hyperparameters : callable
        `hyperparameters(parameters)` returns the learned hyperparameters that `xmlgp show` prints, by name; parameters
        are a mapping of names to arrays.
    learn : callable, optional
        `learn(earlier, features, labels, preprocessed, progress, checkpoints)` returns the `Trained` of a model that
        has learned more points; `earlier` is an `Earlier`, and `preprocessed` is that of all points so far.
    topics : callable, optional
        `topics(parameters, top)` returns a list of `Topic`, for a model that has topics.
    on_cluster : bool
        Whether the model can be preprocessed and trained on a Dask cluster.
    """

    settings: type
    summary: str
    preprocess: Callable
    train: Callable
    predictor: type
    objective: str = "bound"
    epoch: str = "epoch"
    check_data: Callable = _accept
    memory: Callable = _nothing
    data_format: str | None = None
    notes: Callable = _nothing
    review: Callable = _nothing
    hyperparameters: Callable = _nothing
    learn: Callable | None = None
    topics: Callable | None = None
    on_cluster: bool = False

    @property
    def name(self):
        """The model's name, in commands, recipes and model folders."""
        return self.settings.model

    def work_options(self, work):
        """Return the options of `preprocess` and `train` for where they compute (dict); none for this machine.

        Parameters
        ----------
        work : ThisMachine or DaskCluster

        Raises
        ------
        SettingsError
            If a cluster is given to a model that cannot use it.
        """
        if not work.is_cluster:
            return {}
        if not self.on_cluster:
            raise SettingsError(f"{self.name} is trained on one machine, not on a Dask cluster")
        return {"work": work}

    def check_memory(self, settings, dataset):
        """Raise SettingsError if training needs more memory than is available.

        Parameters
        ----------
        settings : Settings
        dataset : Dataset
        """
        parts = sorted(self.memory(settings, dataset), key=lambda part: -part.size)
        needed, available = sum(part.size for part in parts), available_memory()
        if available is not None and needed > available:
            listed = ", ".join(str(part) for part in parts if part.size > SMALL_SHARE * needed)
            raise SettingsError(
                f"training needs at least {_gigabytes(needed)} of memory, but {_gigabytes(available)} are available: "
                f"{listed}"
            )

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
        """Return an entry of `learned` of a model folder in words: "20 points, 2 new labels: bound -331.6"."""
        named = ("N", "point"), ("K", "new label"), ("D", "new feature")
        counts = [counted(batch[key], noun) for key, noun in named if batch[key]] or [counted(0, "point")]
        objective = f": {self.objective_at(batch['history'][-1])}" if batch["history"] else ""
        return ", ".join(counts) + objective


def counted(number, noun):
    """Return a number of things in words: "1 label", "2 labels"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _gigabytes(size):
    return f"{size / 1e9:.1f} GB"
