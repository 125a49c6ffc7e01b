"""A report of a model on points whose labels are known: one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable
from importlib.resources import files
from types import SimpleNamespace
from typing import TYPE_CHECKING

from scipy.sparse import csr_array

from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.inputs.points import Block
from xmlgp.prediction.predictor import MEMORY, Predictor
from xmlgp.reporting.charts import draw_frequencies, draw_ranks, draw_reliability, draw_small_reliability
from xmlgp.reporting.content import About, make_content
from xmlgp.reporting.evidence import LISTED, Evidence
from xmlgp.runtime.progress import Progress, ignore, silent

if TYPE_CHECKING:
    from xmlgp.prediction.tuning import Tuned

__all__ = ["check_available", "make_report", "render"]


def check_available() -> None:
    """Raise XmlgpError if Jinja2 is not installed, so that a long computation need not end with that."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise XmlgpError("reports need Jinja2: pip install 'xmlgp[report]'") from None


def make_report(
    predictor: Predictor,
    blocks: Iterable[Block],
    about: Callable[[csr_array], About],
    *,
    tuned: Tuned | None = None,
    neighbours: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
    note: Callable[[str], object] = ignore,
) -> str:
    """Return an HTML page that evaluates a model of two labels or more.

    `blocks` has the test points. `about` returns what else the page says, given the true labels, N×K or more. Labels
    are assigned by the threshold and the limit of `tuned` if these are for probabilities, otherwise by the highest
    expected F1, from the probabilities of the 50 best labels. `neighbours` is the number of nearest training documents
    to show of each document.
    """
    if neighbours:
        predictor.check_neighbours()
    if tuned is not None and tuned.output != "probability":
        note(f"The model is tuned for `output={tuned.output}`, which this report does not use")
        tuned = None
    rule = tuned and f"the labels of {tuned} of a document, as xmlgp tune chose"
    evidence = Evidence(predictor.label_count, tuned and tuned.rule, seed=seed)
    k = max(LISTED, tuned.limit) if tuned else LISTED
    with progress("report", unit=" points") as bar:
        for block in blocks:
            done = 0
            points = block.points
            for scores in predictor.top(points.features, k, "probability", memory=MEMORY):
                scores.check_finite(evidence.point_count)
                rows = slice(done, done + scores.N)
                texts = None if block.texts is None else block.texts[rows]
                ids = None if block.ids is None else block.ids[rows]
                evidence.add(scores, points.labels[rows], points.features[rows], texts, ids)
                done += scores.N
                bar.update(scores.N)
    page = dataclasses.replace(about(evidence.labels), rule=rule)
    try:
        predictor.check_explainable()
        page = dataclasses.replace(page, explain=predictor.explain)
    except SettingsError as error:
        note(f"The report has no words for and against labels: {error}")
    if neighbours:
        page = dataclasses.replace(page, neighbours=functools.partial(predictor.neighbours, count=neighbours))
    return render(make_content(evidence, page))


def render(content: SimpleNamespace) -> str:
    """Return the page of a report, given what `make_content` returns.

    The page loads nothing, and a Content-Security-Policy forbids it to: only the style and the script that belong to it
    are allowed, by their hashes. All text of the content is escaped. Equal content gives equal pages.
    """
    import jinja2

    def load(name: str) -> str:
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
    script = load("page.js")
    # Style, script and charts are parts of the program; the template does not escape them.
    return environment.get_template("template.html").render(
        c=content,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        frequency_chart=draw_frequencies(content.frequencies, content.frequency_of),
        reliability_chart=draw_reliability(content.reliability),
        reliability_picture=draw_small_reliability(content.reliability.filled),
        rank_chart=draw_ranks(content.ranks),
    )


def _hash(text: str) -> str:
    """Return the source expression that allows an inline style or script of this content."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"


def _percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else _kept(f"{100 * share:.{digits}f} %")


def _kept(text: str) -> str:
    """Return text whose percent signs stay in the line of their numbers."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _short(value: float) -> str:
    return f"{value:.4g}"


def _signed(value: float) -> str:
    """Return a contribution with its sign; a true minus sign is as wide as a plus."""
    return f"{value:+.2f}".replace("-", "−")
