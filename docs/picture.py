"""Take the picture of the README: the page of `xmlgp serve` with suggestions for a text.

    python docs/picture.py MODEL PICTURE

Needs Playwright, and Chromium on the PATH.
"""

import re
import shutil
import subprocess  # noqa: S404, TID251
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

#: A ticket with three labels.
TEXT = "My screen is dark and I forgot my password. We have a deadline today."
WIDTH = 1100
#: Pixels below what is shown.
MARGIN = 18


def main(model: str, picture: str) -> None:
    """Start a server, take the picture, and stop the server."""
    command = [sys.executable, "-m", "xmlgp", "serve", model, "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            line = server.stderr.readline() if server.stderr else ""
            address = re.search(r"http://[\d.:]+", line)
            if not address:
                sys.exit(f"the server did not start: {line}")
            take(address[0], Path(picture))
        finally:
            server.terminate()


def take(address: str, picture: Path) -> None:
    """Write the picture of the page at an address."""
    programs = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    with sync_playwright() as driver:
        # Chromium refuses its sandbox to root.
        browser = driver.chromium.launch(executable_path=next(programs, None), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        page.goto(address)
        page.locator("textarea").first.fill(TEXT)
        page.get_by_role("button", name="Suggest").click()
        page.get_by_text("Against").first.wait_for()
        page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": height_of(page)})
        browser.close()


def height_of(page: Page) -> float:
    """Return the height down to the last button."""
    lines = [*page.get_by_text("Against").all(), page.get_by_role("button", name="Copy")]
    boxes = [line.bounding_box() for line in lines]
    return max(box["y"] + box["height"] for box in boxes if box) + MARGIN


if __name__ == "__main__":
    main(*sys.argv[1:])
