"""Make an HTML page about how a model does on test points."""

from __future__ import annotations

import os

import numpy as np

from xmlgp.api.evaluate import rank_labels
from xmlgp.api.points import FilePath
from xmlgp.api.source import Labels, Points, Source, is_path
from xmlgp.api.trained_model import TrainedModel, as_trained_model, describe
from xmlgp.data.files import check_outputs, locate, open_output
from xmlgp.metrics.propensity import estimate_propensities
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.progress import QUIET, Reporter
from xmlgp.training.result import precision_limits

__all__ = ["report"]


def report(
    model: FilePath | TrainedModel,
    data: Points | Source,
    out: FilePath | None = None,
    *,
    labels: Labels | None = None,
    title: str | None = None,
    reporter: Reporter = QUIET,
) -> str:
    """Return an HTML page about how a model does on points that have labels, and write it if asked.

    Parameters
    ----------
    model : path or TrainedModel
    data, labels, reporter
        As for `train`, of the test points, which the model was not trained on.
    out : path, optional
        Where to write the page; `-` for standard output.
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
    source = Source.of(data, labels)
    source.check()
    model = as_trained_model(model)
    if out is not None:
        check_outputs([out], [model.folder and model.folder.path, *source.inputs])
    N, D, K = (model.data[letter] for letter in "NDK")
    if K < 2:
        raise SettingsError(f"{model}: a report needs a model of two labels or more, but this one has 1 label")
    with source.stream(model.signature, True, reporter) as points:
        answers = Answers.of(model.predictor, points.blocks(), reporter.progress)
        names = model.names.shown and [*model.names.shown, *(points.labels or [])[K:]]
    unknown = answers.scores.K - K
    counts = None if model.label_counts is None else np.pad(model.label_counts, (0, unknown))
    propensities = None
    if counts is not None:
        try:
            propensities = estimate_propensities(counts, N, D).values
        except SettingsError as error:
            reporter.note(f"There is no PSP: {error}")
    evaluation = rank_labels(answers.scores.matrix, answers.labels, KS, propensities, ("macro", "calibration"))
    counts_of_points = np.diff(answers.labels.indptr)
    without = np.count_nonzero(counts_of_points == 0)
    counting = f", of which {without:,} without labels count as missed" if without else ""
    # Those that are empty are not shown.
    facts = {
        "model": f"{model} ({model.settings.model})",
        **describe(model),
        "test data": locate(os.fspath(source.data), "test") if is_path(source.data) else source.title,
        "test points": f"{answers.scores.N:,}{counting}",
        "limits": precision_limits(counts_of_points, KS),
        "unknown labels": f"{unknown:,} of the test data, which count as missed" if unknown else "",
    }
    title = title or (model.folder.path.resolve().name if model.folder else "Model")
    page = render(answers, title, facts, names, counts, evaluation)
    if out is not None:
        with open_output(out) as stream:
            stream.write(page.encode(errors="backslashreplace"))
    return page
