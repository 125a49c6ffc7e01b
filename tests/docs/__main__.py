"""Rewrite the outputs that pages show below their commands.

    python -m tests.docs [--numbers] [PAGE ...]

Without --numbers, outputs that the tests accept stay. The default is all pages.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import PAGES, name_of
from tests.docs.running import is_as_shown, make_environment, run_page


def update(page, folder, environment, shared, numbers):
    """Rewrite the outputs on a page that the tests refuse, or with `numbers` all that differ."""
    text = page.read_text(encoding="utf-8")
    updated = text
    for shown in run_page(text, folder, environment, shared):
        if numbers or not is_as_shown(shown):
            before, after = (f"$ {shown.command}\n{output}" for output in (shown.expected, shown.printed))
            updated = updated.replace(before, after)
            print(f"{name_of(page)}:{shown.line}: {shown.command}")
    page.write_text(updated, encoding="utf-8")


with tempfile.TemporaryDirectory() as name:
    folders = [Path(name, part) for part in ("environment", "shared", "pages")]
    for made in folders:
        made.mkdir()
    environment = make_environment(folders[0])
    numbers = "--numbers" in sys.argv
    chosen = [Path(path).resolve() for path in sys.argv[1:] if path != "--numbers"]
    for number, page in enumerate(chosen or PAGES):
        run_in = folders[2] / str(number)
        run_in.mkdir()
        update(page, run_in, environment, folders[1], numbers)
