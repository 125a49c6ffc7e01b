"""A report of a model on points whose labels are known: one HTML page that needs nothing else."""

import base64
import functools
import hashlib
from importlib.resources import files

from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.prediction.predictor import MEMORY
from xmlgp.reporting.charts import draw_frequencies, draw_ranks, draw_reliability
from xmlgp.reporting.content import make_content
from xmlgp.reporting.evidence import LISTED, Evidence
from xmlgp.runtime.progress import ignore, silent

__all__ = ["check_available", "make_report", "render"]


def check_available():
    """Raise XmlgpError if Jinja2 is not installed, so that a long computation need not end with that."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise XmlgpError("reports need Jinja2: pip install 'xmlgp[report]'") from None


def make_report(predictor, blocks, about, *, tuned=None, neighbours=None, seed=0, progress=silent, note=ignore):
    """Return an HTML page that evaluates a model of two labels or more.

    `blocks` has the test points: a `Dataset`, and its texts and identifiers or None. `about` returns the other
    arguments of `make_content`, given the true labels, a csr_array, N×K or more. Labels are given by the threshold and
    the limit of `tuned` if these are for probabilities; otherwise they are those of the highest expected F1 by the
    probabilities of the 50 best labels. With `neighbours`, documents have so many nearest training documents.
    """
    if neighbours:
        predictor.check_neighbours()
    rule = None
    if tuned is not None and tuned.output != "probability":
        note(f"The model is tuned for `output={tuned.output}`, which this report does not use")
    elif tuned is not None:
        rule = f"the labels of {tuned} of a document, as xmlgp tune chose"
    evidence = Evidence(predictor.label_count, tuned.rule if rule else None, seed=seed)
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
    near = functools.partial(predictor.neighbours, count=neighbours) if neighbours else None
    about = {"explain": explain, "neighbours": near, "rule": rule} | about(evidence.labels)
    return render(make_content(evidence, **about))


def render(content):
    """Return the page of a report, given what `make_content` returns.

    The page loads nothing, and a Content-Security-Policy forbids it to: only the style and the script that belong to it
    are allowed, by their hashes. All text of the content is escaped. Equal content gives equal pages.
    """
    import jinja2

    def load(name):
        return (files(__package__) / name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "short": _short, "signed": _signed, "kept": _kept}
    style = load("style.css")
    script = load("sort.js")
    # Style, script and charts are parts of the program; the template does not escape them.
    return environment.get_template("template.html").render(
        c=content,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        frequency_chart=draw_frequencies(content.frequencies, content.frequency_of),
        reliability_chart=draw_reliability(content.bins),
        rank_chart=draw_ranks(content.ranks),
    )


def _hash(text):
    """Return the source expression that allows an inline style or script of this content."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"


def _percent(share, digits=1):
    return "–" if share is None else _kept(f"{100 * share:.{digits}f} %")


def _kept(text):
    """Return text whose percent signs stay in the line of their numbers."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _number(value):
    return "–" if value is None else f"{value:,}"


def _short(value):
    return f"{value:.4g}"


def _signed(value):
    """Return a contribution with its sign; a true minus sign is as wide as a plus."""
    return f"{value:+.2f}".replace("-", "−")
