"""The page in Chromium: charts are drawn, tables sort, it fits a phone, and neither scripts nor requests get out.

They need Playwright (`pip install '.[browser]'`) and Chromium on the PATH; without either they are skipped.
"""

import itertools

import pytest

from tests.chromium import launched, needs_chromium
from tests.report.test_page import SHOWN, make_page

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(make_page(hostile=True), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser, file):
    """Return a function that opens the page; at the end, no request but that of the page itself was made."""
    contexts, requests, messages = [], [], []

    def open_page(viewport=None):
        context = browser.new_context(viewport=viewport or {"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        for event in ("console", "pageerror", "dialog"):
            page.on(event, lambda message: messages.append(str(message)))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(requests) == {file.as_uri()}
    assert messages == []


def column(page, table, number):
    """Return the texts of a column of a table."""
    return page.locator(f"table:has(#{table}) tbody tr > :nth-child({number})").all_inner_texts()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_does_not_scroll_sideways_and_charts_are_complete(opened, width):
    page = opened({"width": width, "height": 844})
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    for element in ("documentElement", "body"):
        assert page.evaluate(f"document.{element}.scrollWidth") <= width
    charts = page.evaluate(
        """() => Array.from(document.querySelectorAll("svg"), (chart) => [
            [chart], chart.querySelectorAll("rect.a, circle.ring"), chart.querySelectorAll("text"),
        ].map((parts) => Array.from(parts, (part) => part.getBoundingClientRect().toJSON())))"""
    )
    assert len(charts) == 2
    for (chart,), marks, texts in charts:
        assert marks
        assert len(texts) > 10
        assert all(mark["width"] > 0 for mark in marks)
        for part in marks + texts:
            assert chart["left"] - 1 <= part["left"] <= part["right"] <= chart["right"] + 1
        for one, other in itertools.combinations(texts, 2):
            # Lines have space above and below their letters.
            assert (
                min(one["right"], other["right"]) <= max(one["left"], other["left"]) + 1
                or min(one["bottom"], other["bottom"]) <= max(one["top"], other["top"]) + 4
            ), (one, other)


@pytest.mark.parametrize("how", ["click", "Enter", "Space"])
def test_tables_sort_by_click_and_by_keyboard(opened, how):
    page = opened()
    head = page.locator("table:has(#frequency-table) thead th")
    before = column(page, "frequency-table", 1)

    def press(number):
        button = head.nth(number).locator("button")
        button.click() if how == "click" else button.press(how)

    for order in ("descending", "ascending"):
        press(2)
        true = [int(text) for text in column(page, "frequency-table", 3)]
        assert true == sorted(true, reverse=order == "descending")
        assert head.nth(2).get_attribute("aria-sort") == order
    # Cells without a number are last in both orders.
    page.evaluate("document.querySelector('table:has(#frequency-table) tbody tr').cells[4].dataset.value = ''")
    empty = column(page, "frequency-table", 1)[0]
    for _ in range(2):
        press(4)
        assert column(page, "frequency-table", 1)[-1] == empty
    # Names sort by the numbers in them.
    press(0)
    assert column(page, "frequency-table", 1) == before
    assert page.locator("table:has(#frequency-table) [aria-sort]").count() == 1


def test_scripts_in_text_do_not_run(opened):
    # A dialog would be among the messages.
    page = opened()
    assert page.locator("article bdi").first.inner_text() == " ".join(SHOWN.split())
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0


def test_the_policy_stops_what_would_get_in(browser, file):
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    with page.expect_event("requestfailed") as stopped:
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "document.title = 'ran'";
                document.body.append(script);
                const image = document.createElement("img");
                image.src = "http://127.0.0.1:9/x.png";
                document.body.append(image);
            }"""
        )
    # The style is in force, in spite of the policy, and follows the theme of the system.
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == "rgb(255, 255, 255)" != colours[1]
    assert (stopped.value.url, stopped.value.failure) == ("http://127.0.0.1:9/x.png", "csp")
    assert page.title() != "ran"
    context.close()
