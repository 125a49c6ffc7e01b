"""The record that describes a model to the rest of xmlgp."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from xmlgp.models.fields import Settings
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from xmlgp.data.dataset import Dataset, Features
    from xmlgp.features.pipeline import Preprocessed
    from xmlgp.prediction.predictor import Predictor
    from xmlgp.runtime.executor import Executor
    from xmlgp.runtime.progress import Progress
    from xmlgp.training.checkpoints import CheckpointWriter
    from xmlgp.training.result import TrainingResult

__all__ = ["Model", "Topic", "imported_on_call"]


class Train(Protocol):
    """A function that trains a model. Settings, here and below, are those of the model's class."""

    def __call__(
        self,
        features: Features,
        labels: csr_array,
        preprocessed: Preprocessed,
        settings: Any,
        progress: Progress = ...,
        checkpoints: CheckpointWriter | None = ...,
    ) -> TrainingResult:
        """Return the trained model."""


def _nothing(*arguments: object) -> tuple[()]:
    """Return no lines."""
    return ()


def _none(*arguments: object) -> None:
    """Return None."""


class Topic(NamedTuple):
    """A topic, or several that are joined: its share in the positive labels, and its labels of highest weight.

    The number counts from 0. The shares of all topics sum to 1. The highest label is the first, equal ones are in the
    order of labels; weights are probabilities in the topic. `joined` are the numbers of the topics that are joined, of
    which `number` has the highest share; of a topic by itself it is only that.
    """

    number: int
    share: float
    labels: list[int]
    weights: list[float]
    joined: list[int]


@dataclass(frozen=True)
class Model:
    """A kind of model, as the commands, the estimators and the model folder see it.

    A new model is one package with such a record, and one line in `xmlgp.models.table`. Features are `Features`, N×D,
    labels a csr_array of bool, N×K; parameters are a mapping of names to arrays.
    """

    #: Its subclass of `Settings`, which has the model's name as `model`.
    settings: type[Settings]
    #: `(features, settings, progress)` → `Preprocessed`.
    preprocess: Callable[..., Preprocessed]
    train: Train
    #: Returns its subclass of `Predictor`.
    load_predictor: Callable[[], type[Predictor]]
    #: What training maximises: the key in each epoch of a history.
    objective: str = "bound"
    #: The name of a pass over the data.
    epoch: str = "epoch"
    #: `(dataset)` raises SettingsError for data that the model cannot be trained on.
    check_data: Callable[[Dataset], object] = _nothing
    #: `(settings)` → whether the model has neighbours: points may have dense features, and labels texts, which `train`
    #: then takes as `label_texts`.
    has_neighbours: Callable[[Any], bool] = lambda settings: False
    #: Whether `train` holds points out: then it also takes `groups`, that of each point, as `Dataset` has them.
    holds_out: bool = False
    #: The format of data files that this model is the default for.
    data_format: str | None = None
    #: `(settings, dataset)` → sentences to show before training.
    notes: Callable[[Any, Dataset], Iterable[str]] = _nothing
    #: `(settings, N, D, K)` → the values that unset settings have for data of this shape, by name.
    default_values: Callable[[Any, int, int, int], Mapping[str, object]] = lambda settings, N, D, K: {}
    #: `(settings, description of the model folder)` → sentences to show after training.
    review: Callable[[Any, Mapping[str, Any]], Iterable[str]] = _nothing
    #: `(parameters, top, most)` → at most so many `Topic`s, for a model that has topics; None for all, none joined.
    topics: Callable[[Mapping[str, NDArray[Any]], int, int | None], list[Topic]] | None = None
    #: `(settings, preprocessed, parameters, points, rows)` → the preprocessing and the parameters of a model that new
    #: points (`Dataset`) have joined without training, and which then has `rows` of all; None if they cannot.
    join: Callable[..., tuple[Preprocessed, dict[str, NDArray[Any]]] | None] = _none
    #: Whether `preprocess` and `train` also take `executor`, a `DaskCluster` or `LocalExecutor`.
    on_cluster: bool = False

    @property
    def name(self) -> str:
        """The model's name, in commands, recipes and model folders."""
        return self.settings.model

    def executor_options(self, executor: Executor) -> dict[str, Executor]:
        """Return the options (dict) of `preprocess` and `train` for where they compute; none for this machine.

        A SettingsError is raised if a cluster is given to a model that cannot use it.
        """
        if not executor.is_cluster:
            return {}
        if not self.on_cluster:
            raise SettingsError(f"{self.name} is trained on one machine, not on a Dask cluster")
        return {"executor": executor}

    def epochs(self, entry: Mapping[str, Any]) -> str:
        """Return the number of epochs up to an entry of a history, in words: "20 epochs", "1 iteration".

        An entry of a sweep over the labels has its number as `sweep`: "8 epochs and 2 sweeps over the labels".
        """
        sweeps = entry.get("sweep", 0)
        text = counted(entry["epoch"] - sweeps, self.epoch)
        return f"{text} and {counted(sweeps, 'sweep')} over the labels" if sweeps else text

    def objective_at(self, entry: Mapping[str, Any]) -> str:
        """Return the objective of an entry of a history, in words: "bound -33136.6"."""
        return f"{self.objective.replace('_', ' ')} {entry[self.objective]:.6g}"


def imported_on_call(name: str) -> Callable[..., Any]:
    """Return a function that imports "module:function" when it is called, and calls it.

    Every command imports the table of models, but few need the modules of a model.
    """

    def call(*arguments: object, **options: object) -> Any:
        return pkgutil.resolve_name(name)(*arguments, **options)

    return call
