"""The stages of a training run: read points, choose settings, preprocess, train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xmlgp.api.kept_points import arrays_of_points
from xmlgp.api.points import FilePath
from xmlgp.api.source import Source
from xmlgp.api.trained_model import TrainedModel
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.dataset import Dataset, widened
from xmlgp.features.pipeline import Preprocessed
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models.fields import Settings
from xmlgp.models.table import DEFAULT_MODEL, MODELS, check_recipe, default_model, resolve
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.runtime.work import THIS_MACHINE, Work
from xmlgp.text.label_texts import NumberedTexts, number_texts, read_label_texts
from xmlgp.text.names import Names
from xmlgp.text.vocabulary import name_labels
from xmlgp.training.checkpoints import CheckpointWriter

__all__ = ["ChosenSettings", "Run", "read_run"]

#: Settings by name, perhaps with the `model` and a `recipe`, or complete `Settings`.
ChosenSettings: TypeAlias = "Mapping[str, Any] | Settings"


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
    work: Work = THIS_MACHINE
    texts: NumberedTexts | None = None
    keep_points: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = MODELS[self.settings.model]
        if self.dataset.K == 0:
            raise SettingsError("there is nothing to learn: the training data have no labels (K is 0)")
        if self.texts and not model.takes_label_texts(self.settings):
            raise SettingsError(
                "texts of labels need model=mlgpf with inducing=features, kernel=linear and neighbours=true, which are "
                "its defaults"
            )
        model.check_dense(self.settings, self.dataset)
        model.check_data(self.dataset)
        model.work_options(self.work)

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows the data by: their facts, and the texts of labels."""
        facts = dict(self.dataset.facts)
        return facts | {"label_texts": self.texts.fingerprint} if self.texts else facts

    def preprocess(self) -> Preprocessed:
        """Return the result of preprocessing, as the model does it."""
        model = MODELS[self.settings.model]
        options = model.work_options(self.work)
        return model.preprocess(self.dataset.features, self.settings, self.reporter.progress, **options)

    def train(self, preprocessed: Preprocessed, checkpoints: CheckpointWriter | None = None) -> TrainedModel:
        """Return the model that is trained on preprocessed points."""
        model = MODELS[self.settings.model]
        options: dict[str, Any] = model.work_options(self.work)
        names = self.names
        if self.texts and names.vectorizer:
            options = options | {"label_texts": (self.texts.words(names.vectorizer), self.texts.labels)}
            names = names._replace(texts=self.texts.texts)
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
    work: Work = THIS_MACHINE,
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
        dataset = Dataset(dataset.features, widened(dataset.labels, K))
    names = name_labels(names, concepts, note=reporter.note)
    about = reporter if path is None else reporter.about(path)
    return Run(
        dataset, names, _choose_settings(chosen, data_format, dataset, about.note), about, work, texts, keep_points
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
