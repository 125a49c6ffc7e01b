"""Rewrite the outputs that pages show, where a command prints something else: `python -m tests.docs [PAGE …]`."""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import PAGES, name_of
from tests.docs.running import make_environment, run_page, without_numbers


def update(page, folder, environment, shared):
    """Rewrite the outputs on a page that differ in more than numbers."""
    text = page.read_text(encoding="utf-8")
    updated = text
    for shown in run_page(text, folder, environment, shared):
        if without_numbers(shown.printed) != without_numbers(shown.expected):
            before, after = (f"$ {shown.command}\n{output}" for output in (shown.expected, shown.printed))
            updated = updated.replace(before, after)
            print(f"{name_of(page)}:{shown.line}: {shown.command}")
    page.write_text(updated, encoding="utf-8")


with tempfile.TemporaryDirectory() as name:
    folders = [Path(name, part) for part in ("environment", "shared", "pages")]
    for made in folders:
        made.mkdir()
    environment = make_environment(folders[0])
    for number, page in enumerate([Path(path).resolve() for path in sys.argv[1:]] or PAGES):
        run_in = folders[2] / str(number)
        run_in.mkdir()
        update(page, run_in, environment, folders[1])
