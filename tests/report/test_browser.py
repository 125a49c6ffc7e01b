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
        """() => Array.from(document.querySelectorAll("svg[role=img]"), (chart) => [
            [chart], chart.querySelectorAll("rect.a, circle.ring"), chart.querySelectorAll("text"),
        ].map((parts) => Array.from(parts, (part) => part.getBoundingClientRect().toJSON())))"""
    )
    assert len(charts) == 3
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


PHONE = {"width": 390, "height": 844}

#: Names in scripts that run from right to left, of many words, and of one.
LONG_NAMES = ["قواعد البيانات " * 9, "מערכות הפעלה", "procedures before the court of justice " * 5, "0123456789" * 12]


@pytest.mark.parametrize("width", [320, 390, 900, 1280])
def test_long_names_stay_in_the_page(browser, tmp_path, width):
    file = tmp_path / "report.html"
    file.write_text(make_page(N=200, K=40, names=LONG_NAMES * 10), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # The names in the answers have a line each, so that the card stays as high as the others.
    heights = [name.bounding_box()["height"] for name in page.locator(".bars bdi").all()]
    assert len(heights) == 10
    assert max(heights) < 30
    page.close()


def test_a_page_on_a_phone_is_short(opened):
    # 120 documents and 9 labels, twenty documents with hostile texts.
    page = opened(PHONE)
    assert page.evaluate("document.documentElement.scrollHeight") < 9000
    # Not because what is left out cannot be reached: each link opens its section.
    for link in page.locator("nav a").all():
        link.click()
        section = page.locator(f"section:has(> h2#{link.get_attribute('href')[1:]}-title)")
        assert section.locator("p").first.is_visible()
    assert page.locator(".document").count() == 20
    for summary in page.locator(".document summary").all():
        summary.click()
    assert all(table.is_visible() for table in page.locator(".document table").all())


def test_all_columns_and_rows_of_tables_of_labels_are_reachable_on_a_phone(browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(make_page(N=400, K=60), encoding="utf-8")
    page = browser.new_page(viewport=PHONE)
    page.goto(file.as_uri() + "#labels")
    for table in "best-table", "worst-table", "confusions-table":
        long = page.locator(f".long:has(#{table})")
        rows = long.locator("tbody tr")
        assert sum(row.is_visible() for row in rows.all()) == 10
        frame = long.locator(".scroll").bounding_box()
        for cell in rows.first.locator("th, td").all() + long.locator("thead th").all():
            box = cell.bounding_box()
            assert box["width"] > 0
            assert frame["x"] <= box["x"] <= box["x"] + box["width"] <= frame["x"] + frame["width"] <= 390
        long.locator("summary").click()
        assert all(row.is_visible() for row in rows.all())
        assert rows.count() > 10
    page.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_paper_has_all_and_links_work_without_scripts(browser, file, scripts):
    context = browser.new_context(viewport=PHONE, java_script_enabled=scripts)
    page = context.new_page()
    page.goto(file.as_uri())
    document = page.locator(".document table").first
    assert not document.is_visible()
    page.emulate_media(media="print")
    assert document.is_visible()
    page.emulate_media(media="screen")
    page.locator("nav a[href='#labels']").click()
    assert page.locator("table:has(#best-table)").is_visible()
    context.close()


def test_older_browsers_print_all_and_links_open_documents(opened):
    page = opened(PHONE)
    closed = page.locator("details:not([open])")
    before = closed.count()
    assert before > 20
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert closed.count() == before
    document = page.locator(".document").last
    page.evaluate("(id) => { location.hash = id; }", document.get_attribute("id"))
    page.wait_for_function("(id) => document.getElementById(id).open", arg=document.get_attribute("id"))


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_cards_leave_no_holes(opened, width):
    page = opened({"width": width, "height": 900})
    boxes = [card.bounding_box() for card in page.locator(".answers > section").all()]
    assert len(boxes) == 3
    assert len({round(box["width"]) for box in boxes}) == 1
    columns = {round(box["x"]) for box in boxes}
    assert len(columns) in (1, 3)
    if len(columns) == 3:
        assert len({(round(box["y"]), round(box["height"])) for box in boxes}) == 1


def test_the_chart_of_probabilities_has_an_interval_and_a_count_for_each_bin(opened):
    page = opened()
    chart = page.locator("svg:has(#reliability-chart-title)")
    table = page.locator("table:has(#reliability-table) tbody tr")
    points = chart.locator("g > g:has(> circle)")
    assert points.count() == chart.locator("rect").count() == table.count() > 5
    page.locator("details:has(#reliability-table) summary").click()
    counts = [int(text.replace(",", "")) for text in column(page, "reliability-table", 2)]
    bars = [bar.bounding_box()["height"] for bar in chart.locator("rect").all()]
    by_count = [bar for _, bar in sorted(zip(counts, bars, strict=True))]
    assert by_count == sorted(bars)
    for point, count in zip(points.all(), counts, strict=True):
        line = point.locator("line").bounding_box()
        circle = point.locator("circle").bounding_box()
        assert line["y"] <= circle["y"] + circle["height"] / 2 <= line["y"] + line["height"]
        assert ("weak" in point.locator("circle").get_attribute("class")) == (count < 50)
    assert 0 < chart.locator("g > circle.weak").count() < points.count()


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
    assert page.locator("h1 bdi").inner_text() == " ".join(SHOWN.split())
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
