"""Chromium, driven by Playwright, for tests of pages; a module that imports it is skipped without either."""

import contextlib
import shutil

import pytest

__all__ = ["launched", "needs_chromium", "playwright"]

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install '.[browser]'")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on the PATH")


@contextlib.contextmanager
def launched():
    """Yield a browser, which is closed at the end of the block."""
    with playwright.sync_playwright() as driver:
        # Tests may run as root, as whom Chromium refuses its sandbox.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
