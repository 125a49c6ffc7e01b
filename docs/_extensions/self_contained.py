"""Check that the built site loads nothing from other servers: it must work without a network and track nobody."""

import re
from pathlib import Path

from sphinx.errors import SphinxError

#: A script, style sheet, font or image of another server. Links that a reader clicks are no such thing.
EXTERNAL = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*|"""
    r"""<link\b[^>]*\brel=["'](?:stylesheet|preload|icon)["'][^>]*\bhref=["'](?:https?:)?//[^"']*|"""
    r"""(?:@import\s+|url\()["']?(?:https?:)?//[^"')]*""",
    re.IGNORECASE,
)


def check(app, exception):
    """Fail the build if a page or a style sheet loads something from another server."""
    if exception or app.builder.format != "html":
        return
    for file in sorted(Path(app.outdir).rglob("*")):
        if file.suffix in {".html", ".css"}:
            found = EXTERNAL.search(file.read_text(encoding="utf-8"))
            if found:
                raise SphinxError(f"{file.name} loads from another server: {found[0]}")


def setup(app):
    """Check when the build has finished."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
