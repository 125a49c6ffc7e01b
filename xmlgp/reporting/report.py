"""Make an HTML page about how a model does on test points."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from xmlgp.api.matching import training_facts
from xmlgp.api.points import FilePath, is_path, title_of
from xmlgp.api.source import DenseFeatures, Labels, Points, Source
from xmlgp.api.trained_model import TrainedModel, opened
from xmlgp.data.locate import locate
from xmlgp.data.names import read_label_names
from xmlgp.data.streams import check_outputs, open_output
from xmlgp.metrics.intervals import intervals
from xmlgp.metrics.macro import macro_statistics
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.metrics.ranking import ranking_statistics
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["report"]

#: The measures on the page, each @k.
MEASURES = ("P", "nDCG", "PSP", "recall", "macro-F1")


def report(
    model: FilePath | TrainedModel,
    data: Points | Source,
    out: FilePath | None = None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    train: Points | Source | TrainedModel | None = None,
    label_names: FilePath | Sequence[str] | None = None,
    title: str | None = None,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> str:
    """Return an HTML page about how a model does on points whose labels are known, and write it if asked.

    Parameters
    ----------
    model : path or TrainedModel
    data, labels, dense, progress, note
        As for `train`, of the test points, which the model was not trained on.
    out : path, optional
        Where to write the page; `-` for standard output.
    train : path, Dataset or TrainedModel, optional
        Training points, or another model, for the number of points with each label. Default: those that `model` knows.
    label_names : path or list of str, optional
        K names, or a file with a name a line. Default: those of the model.
    title : str, optional

    Raises
    ------
    SettingsError
        If the model has one label, the points do not fit it, or no point has a true label.
    """
    from xmlgp.reporting.page import KS, Answers, check_available, render

    check_available()
    if out is not None and not is_path(out):
        raise UsageError("The third argument is the path of the page; give labels as labels=….")
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    source.check()
    model = opened(model)
    if out is not None:
        check_outputs([out], [model.folder and model.folder.path, *source.inputs, train, label_names])
    K = model.data["K"]
    if K < 2:
        raise SettingsError(f"{model}: a report needs a model of two labels or more, but this one has 1 label")
    facts = training_facts(model if train is None else train, source, reporter)
    if facts.shape and facts.shape[2] != K:
        raise SettingsError(f"{title_of(train)} has {facts.shape[2]} labels, but {model} has {K}")
    if facts.names.labels and facts.names.labels != model.names.labels:
        raise SettingsError(f"{title_of(train, 'the model in `train`')} has other names of labels than {model}")
    names = read_label_names(label_names, K) if isinstance(label_names, str | os.PathLike) else label_names
    names = names or model.names.shown
    with source.stream(model.signature, True, reporter) as points:
        answers = Answers.of(model.predictor, points.blocks(), reporter.progress)
        names = None if names is None else [*names, *(points.labels or [])[K:]]
    counts = None if facts.counts is None else np.pad(facts.counts, (0, answers.scores.K - K))
    propensities = None
    if counts is not None and facts.shape:
        try:
            propensities = estimate_propensities(counts, *facts.shape[:2]).values
        except SettingsError as error:
            reporter.note(f"There is no PSP: {error}")
    pair = answers.scores.matrix, answers.labels
    statistics = ranking_statistics(*pair, KS, propensities) | macro_statistics(*pair, KS)
    statistics = {name: statistics[name] for name in statistics if name.partition("@")[0] in MEASURES}
    shown = [
        ("Model", f"{model} ({model.settings.model})"),
        ("Training points", f"{model.data['N']:,}"),
        ("Test data", locate(os.fspath(source.data), "test") if is_path(source.data) else source.title),
        ("Test points", f"{answers.scores.N:,}"),
        ("Labels", f"{K:,}"),
    ]
    if unknown := answers.scores.K - K:
        shown.append(("Unknown labels of the test data", f"{unknown:,}, which count as missed"))
    measures = {name: statistic.value for name, statistic in statistics.items()}
    title = title or (model.folder.path.resolve().name if model.folder else "Model")
    page = render(answers, title, shown, names, counts, measures, intervals(statistics))
    if out is not None:
        with open_output(out) as stream:
            stream.write(page.encode(errors="backslashreplace"))
    return page
