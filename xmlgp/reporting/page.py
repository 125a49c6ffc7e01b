"""Write a report as one HTML page that needs nothing else: style, script and charts are in it."""

import base64
import hashlib
from importlib.resources import files

from xmlgp.errors import XmlgpError
from xmlgp.reporting.charts import draw_bars, draw_ranks, draw_reliability

__all__ = ["check_available", "render"]


def check_available():
    """Raise XmlgpError if Jinja2 is not installed, so that a long computation need not end with that."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise XmlgpError("reports need Jinja2: pip install 'xmlgp[report]'") from None


def render(content):
    """Return the page of a report (`Content`); raise XmlgpError if Jinja2 is not installed.

    The page loads nothing, and a Content-Security-Policy forbids it to: only the style and the script that belong to it
    are allowed, by their hashes. All text of the content is escaped. Equal content gives equal pages.
    """
    check_available()
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
    style, script = load("style.css"), load("sort.js")
    # Parts of the program, which are not escaped.
    verbatim = {"style": style, "script": script, **_charts(content)}
    return environment.get_template("template.html").render(
        c=content,
        style_hash=_hash(style),
        script_hash=_hash(script),
        **{name: jinja2.utils.markupsafe.Markup(text) for name, text in verbatim.items()},  # noqa: S704
    )


def _charts(content):
    rows = [(group.name, group.precision, group.recall) for group in content.frequencies]
    return {
        "frequency_chart": draw_bars(
            "frequency-chart",
            f"Precision and recall by frequency of labels in {content.frequency_of}",
            "Two bars for each group of labels; the table after the chart has the same figures.",
            rows,
        ),
        "reliability_chart": draw_reliability(
            "reliability-chart",
            "Share of true labels against their probability",
            "A curve on the diagonal means that probabilities come true as often as they say; the table after the "
            "chart has the same figures.",
            content.bins,
        ),
        "rank_chart": draw_ranks(
            "rank-chart",
            "Mean probability and share of true labels by the place of the suggestion",
            "Two marks for each place; the table after the chart has the same figures.",
            content.ranks,
        ),
    }


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
