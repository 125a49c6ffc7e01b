"""Tune how many labels a trained model assigns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from xmlgp.errors import ModelFolderError, SettingsError, memory_errors_reported
from xmlgp.inputs.kinds import FilePath, is_path
from xmlgp.inputs.source import DenseFeatures, Labels, Points, Source, check_widths
from xmlgp.inputs.unknown_labels import added_labels, note_unknown, unknown_labels
from xmlgp.prediction.tuning import Tuned
from xmlgp.prediction.tuning import tune as tune_predictor
from xmlgp.runs.learn import has_learned
from xmlgp.runs.trained_model import TrainedModel, held
from xmlgp.runtime.progress import Progress, Reporter

__all__ = ["tune"]


@memory_errors_reported()
def tune(  # noqa: PLR0913, which are the options of the command
    model: FilePath | TrainedModel,
    data: Points | Source | None,
    *,
    labels: Labels | None = None,
    dense: DenseFeatures | None = None,
    metric: str = "f1-micro",
    output: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    note: Callable[[str], object] | None = None,
) -> Tuned:
    """Choose the threshold and the limit of highest F1 by which `predict` assigns labels; the model keeps them.

    Training into its folder again drops both. True labels that the model does not know count as missed. Besides
    scoring, this takes about 5 KB of memory per point.

    Parameters
    ----------
    model : path or TrainedModel
        Its folder stores what is chosen, if it has one.
    data, labels, dense, progress, note
        As for `train`; points that the model was not trained on.
    metric : str
        "f1-micro", F1 over all pairs of point and label; "f1-macro", the mean over labels; "f1-point", over points.
    output : str, optional
        The scores that the threshold is for, as for `predict`.
    force : bool
        Whether to accept points that the model was trained on or has learned. Without it, such points are refused, but
        they are recognised only if the training data or the batch is complete and in the same order.

    Raises
    ------
    SettingsError
        If the points do not fit the model or it was trained on them, no point has a label, or the model has one label.
    ModelFolderError
        If another model was stored in the folder of a TrainedModel after it was loaded.
    """
    source = Source.of(data, labels, dense)
    reporter = Reporter.of(progress, note)
    with _held_unchanged(model) as trained:
        K = trained.data["K"]
        if K == 1:
            where = f"{trained}: " if trained.folder else ""
            raise SettingsError(f"{where}the model has one label, so there is no number of labels to tune")
        source.check()
        points, _, names = source.known(trained.known, "validation", reporter)
        check_widths(points.features.widths, trained.known.widths, source.data)
        if not force and has_learned(trained, points):
            these_points = f"the points of {source.data}" if is_path(source.data) else "these points"
            raise SettingsError(
                f"{trained} was trained on {these_points}, so F1 on them is too high; give held-out points, or use "
                "`force=True`"
            )
        unknown = unknown_labels(names.labels, points.labels, K)
        note_unknown(source.title, unknown, points.labels, reporter.note)
        earlier_rule = trained.tuned
        try:
            tuned, earlier_value = tune_predictor(
                trained.predictor,
                points.features,
                points.labels,
                metric,
                output,
                reporter.progress,
                earlier_rule,
                added_labels(names, trained.names),
            )
        except SettingsError as error:
            raise SettingsError(f"{source.data}: {error}" if is_path(source.data) else str(error)) from None
        if trained.folder:
            trained.folder.write_tuned(tuned)
        if isinstance(model, TrainedModel):
            model.tuned = tuned
    if earlier_rule:
        comparison = (
            "is for other scores" if earlier_value is None else f"has {metric} {earlier_value:.5f} on these points"
        )
        reporter.note(f"{trained}: the earlier rule, {earlier_rule}, {comparison}")
    return tuned


@contextlib.contextmanager
def _held_unchanged(model: FilePath | TrainedModel) -> Iterator[TrainedModel]:
    """Yield a model as `held` does; ModelFolderError if the folder of a `TrainedModel` holds another one by now."""
    with held(model) as trained:
        loaded = model.folder if isinstance(model, TrainedModel) else None
        if loaded and trained.folder and trained.folder.description["arrays"] != loaded.description["arrays"]:
            raise ModelFolderError(f"{trained}: the folder holds another model by now; load it again")
        yield trained
