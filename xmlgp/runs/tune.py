"""Tune how many labels a trained model assigns."""

from __future__ import annotations

from collections.abc import Callable

from xmlgp.errors import SettingsError
from xmlgp.prediction.tuning import Tuned
from xmlgp.prediction.tuning import tune as tune_predictor
from xmlgp.runs.given import FilePath, Labels, Points, is_path, known_points, label_of
from xmlgp.runs.trained_model import TrainedModel, held
from xmlgp.runtime.progress import ignore, silent
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions

__all__ = ["tune"]


def tune(
    model: FilePath | TrainedModel,
    data: Points,
    *,
    labels: Labels | None = None,
    metric: str = "f1-micro",
    output: str | None = None,
    corpus: CorpusOptions = NO_OPTIONS,
    cache: bool = True,
    progress: Callable = silent,
    note: Callable[[str], object] = ignore,
) -> Tuned:
    """Choose the threshold and the limit of highest F1 by which `predict` assigns labels; the model keeps them.

    Training into the folder again drops them. Besides scoring, this takes about 5 KB of memory per point.

    Parameters
    ----------
    model : path or TrainedModel
        Its folder stores what is chosen, if it has one.
    data, labels, corpus, cache, progress, note
        As for `train`; points that the model was not trained on.
    metric : str
        "f1-micro", F1 over all pairs of point and label; "f1-macro", the mean over labels; "f1-point", over points.
    output : str, optional
        The scores that the threshold is for, as for `predict`.

    Raises
    ------
    SettingsError
        If the points do not fit the model, no point has a label, or the model has one label.
    """
    with held(model) as known:
        if known.data["K"] == 1:
            where = f"{known}: " if known.folder else ""
            raise SettingsError(f"{where}the model has one label, so there is no number of labels to tune")
        points = known_points(data, labels, "validation", known.names, corpus, cache, progress)
        if points.fingerprint == known.data["fingerprint"]:
            note(
                f"{label_of(data)} has the points that {model} was trained on; held-out points give a better threshold"
            )
        try:
            tuned = tune_predictor(known.predictor, points.features, points.labels, metric, output, progress)
        except SettingsError as error:
            raise SettingsError(f"{data}: {error}" if is_path(data) else str(error)) from None
        if known.folder:
            known.folder.write_tuned(tuned)
    if isinstance(model, TrainedModel):
        model.tuned = tuned
    return tuned
