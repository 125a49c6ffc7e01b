"""A report of a model on points whose labels are known, from the predictor to the page."""

from xmlgp.errors import SettingsError
from xmlgp.prediction.predictor import MEMORY
from xmlgp.reporting.content import make_content
from xmlgp.reporting.evidence import LISTED, Evidence
from xmlgp.reporting.page import check_available, render
from xmlgp.runtime.progress import silent

__all__ = ["make_report"]


def make_report(
    predictor,
    blocks,
    *,
    title,
    facts=(),
    names=None,
    feature_names=None,
    tuned=None,
    counts=None,
    propensities=None,
    seed=0,
    progress=silent,
    note=lambda text: None,
):
    """Return an HTML page that evaluates a model.

    Parameters
    ----------
    predictor : Predictor
        Of two labels or more.
    blocks : iterable of (Dataset, sequence of str or None, sequence of str or None)
        Test points, in blocks, with their texts and their identifiers.
    title : str
        Such as the name of the model.
    facts : sequence of (str, str)
        What else is known, such as the data's name: terms and their values, shown at the top.
    names, feature_names : sequence of str, optional
        K and D names.
    tuned : Tuned, optional
        Labels are given by its threshold and limit if these are for probabilities. Default: those of the highest
        expected F1 by the probabilities of the 50 best labels.
    counts : ndarray of int, K, optional
        The number of training points of each label. Without it, labels are grouped by their number of test points.
    propensities : ndarray of float, K, optional
        For PSP@k (`xmlgp.metrics.propensity`).
    seed : int
        Of the sample of documents.
    progress : callable
        See `xmlgp.runtime.progress`.
    note : callable
        Receives messages about what the report lacks.

    Returns
    -------
    str

    Raises
    ------
    SettingsError
        If the model has one label, no point has a true label, or points, names, counts or propensities are of another
        number of labels or features.
    NumericalError
        If a score is not finite.
    XmlgpError
        If Jinja2 is not installed.
    """
    check_available()
    K = predictor.label_count
    if K < 2:
        raise SettingsError("a report needs a model of two labels or more, but this one has 1 label")
    rule = None
    if tuned is not None and tuned.output != "probability":
        note(f"The model is tuned for --output {tuned.output}, which this report does not use")
    elif tuned is not None:
        rule = f"the labels of {tuned} of a document, as xmlgp tune chose"
    evidence = Evidence(K, tuned.rule if rule else None, seed=seed)
    k = max(LISTED, tuned.limit if rule else 0)
    with progress("report", unit=" points") as bar:
        for block, texts, ids in blocks:
            done = 0
            for scores in predictor.top(block.features, k, "probability", memory=MEMORY):
                scores.check_finite(evidence.point_count)
                rows = slice(done, done + scores.N)
                shown = [None if values is None else values[rows] for values in (texts, ids)]
                evidence.add(scores, block.labels[rows], block.features[rows], *shown)
                done += scores.N
                bar.update(scores.N)
    explain = predictor.explain
    try:
        predictor.check_explainable()
    except SettingsError as error:
        note(f"The report has no words for and against labels: {error}")
        explain = None
    content = make_content(
        evidence,
        title=title,
        facts=facts,
        counts=counts,
        propensities=propensities,
        names=names,
        feature_names=feature_names,
        explain=explain,
        rule=rule,
    )
    return render(content)
