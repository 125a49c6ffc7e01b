"""Tune how many labels a trained model assigns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from xmlgp.errors import ModelFolderError, SettingsError, memory_errors_reported
from xmlgp.prediction.tuning import Tuned
from xmlgp.prediction.tuning import tune as tune_predictor
from xmlgp.runs.batch import has_learned
from xmlgp.runs.given import (
    DenseFeatures,
    FilePath,
    Labels,
    Points,
    added_labels,
    check_dense,
    check_points,
    is_path,
    known_points,
    label_of,
    note_unknown,
    unknown_labels,
)
from xmlgp.runs.trained_model import TrainedModel, held
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions

__all__ = ["tune"]


@memory_errors_reported()
def tune(
    model: FilePath | TrainedModel,
    data: Points | None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    metric: str = "f1-micro",
    output: str | None = None,
    force: bool = False,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Tuned:
    """Choose the threshold and the limit of highest F1 by which `predict` assigns labels; the model keeps them.

    Training into the folder again drops them. True labels that the model does not know count as missed. Besides
    scoring, this takes about 5 KB of memory per point.

    Parameters
    ----------
    model : path or TrainedModel
        Its folder stores what is chosen, if it has one.
    data, labels, dense, corpus, cache, progress, note
        As for `train`; points that the model was not trained on.
    metric : str
        "f1-micro", F1 over all pairs of point and label; "f1-macro", the mean over labels; "f1-point", over points.
    output : str, optional
        The scores that the threshold is for, as for `predict`.
    force : bool
        Whether to accept the points that the model was trained on, or a batch that it has learned. They are recognised
        only if they are complete and in the same order.

    Raises
    ------
    SettingsError
        If the points do not fit the model, no point has a label, or the model has one label, or was trained on them.
    """
    with _held(model) as known:
        if known.data["K"] == 1:
            where = f"{known}: " if known.folder else ""
            raise SettingsError(f"{where}the model has one label, so there is no number of labels to tune")
        check_points(data, labels)
        reading = corpus, cache, progress, note
        points, _, names = known_points(data, labels, dense, "validation", known, *reading)
        check_dense(points.features.widths, known.data.get("dense", []), data)
        if not force and has_learned(known, points):
            which = f"the points of {data}" if is_path(data) else "these points"
            raise SettingsError(
                f"{known} was trained on {which}, so F1 on them is too high; give held-out points, or use `force=True`"
            )
        unknown = unknown_labels(names.labels, points.labels, known.data["K"])
        note_unknown(label_of(data), unknown, points.labels, note)
        before = known.tuned
        labelled = (points.features, points.labels)
        try:
            added = added_labels(names, known.names)
            tuned, value = tune_predictor(known.predictor, *labelled, metric, output, progress, before, added)
        except SettingsError as error:
            raise SettingsError(f"{data}: {error}" if is_path(data) else str(error)) from None
        if known.folder:
            known.folder.write_tuned(tuned)
        if isinstance(model, TrainedModel):
            model.tuned = tuned
    if before:
        reached = "is for other scores" if value is None else f"has {metric} {value:.5f} on these points"
        note(f"{known}: the earlier rule, {before}, {reached}")
    return tuned


@contextlib.contextmanager
def _held(model):
    """Yield a model as `held` does; ModelFolderError if the folder of a `TrainedModel` holds another one by now."""
    with held(model) as known:
        if known.folder and isinstance(model, TrainedModel):
            now, then = (own.folder.description["arrays"] for own in (known, model))
            if now != then:
                raise ModelFolderError(f"{known}: the folder holds another model by now; load it again")
        yield known
