"""The page in Chromium, on a server of canned answers: what a person sees and can do, and that nothing gets in or out.

They need Playwright (`pip install '.[browser]'`) and Chromium on the PATH; without either they are skipped.
"""

import re
import threading
import time
from collections import Counter
from importlib.resources import files
from urllib.parse import parse_qsl

import pytest

from tests.chromium import launched, needs_chromium, playwright

pytest.importorskip("starlette", reason="Starlette is not installed: pip install '.[serve]'")
uvicorn = pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")

from starlette.applications import Starlette  # noqa: E402
from starlette.responses import JSONResponse, Response  # noqa: E402
from starlette.routing import Route  # noqa: E402

from xmlgp.serving.reference import openapi, reference_page  # noqa: E402

expect = playwright.expect

pytestmark = needs_chromium

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

TYPES = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}

#: Seconds that anything here may take.
LONGEST = 30

# The default, 5 seconds, is short for a busy machine.
expect.set_options(timeout=1000 * LONGEST)

HOSTILE = "</bdi></script><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>\"'&amp;{{ 7*7 }}"

#: Names that break pages: markup, control characters and one that reverses text, a long word, text from right to left.
NAMES = [HOSTILE, "bell\a\x1b[31m\0 \u202egnp.exe\u2028line", "w" * 5000, "تصنيف النصوص العربية", "long words " * 500]


def label(name, probability, std=0.02, uri=None, **others):
    return {
        "uri": uri or name,
        "label": name,
        "notation": None,
        "score": probability,
        "probability": probability,
        "std": std,
        "for": [{"word": "window", "contribution": 1.234}, {"word": "toolkit", "contribution": 0.5}],
        "against": [{"word": "kernel", "contribution": -0.31}],
    } | others


def project(name="tags", learns=False, tuned=None, **others):
    return {
        "project_id": name,
        "name": name,
        "language": "und",
        "backend": {"backend_id": "xmlgp"},
        "vocab": {"vocab_id": name, "languages": [], "size": 592, "loaded": True},
        "vocab_language": None,
        "is_trained": True,
        "modification_time": "2026-11-25T16:20:31.123456Z",
        "learns": learns,
        "explains": True,
        "tuned": tuned,
    } | others


RESULTS = [
    label("role::program", 0.998, 0.001),
    label("interface::x11", 0.93, 0.02),
    label("uitoolkit::gtk", 0.62, 0.09, uri="http://example.org/tags/gtk"),
    label("scope::application", 0.30, 0.12),
    label("works-with::text", 0.12, 0.08),
    label("use::editing", 0.004, 0.001),
]


class Server:
    """Answers the requests of the page as the interface says, and records them.

    `projects` and `results` are what it answers with, `known` the labels that it finds by name, and `problem` a status
    with which it refuses what is asked of a project. With `token` it wants one. Requests of a project wait after
    `hold`, until `free` is set.
    """

    def __init__(self):
        routes = [
            Route("/v1/projects", self._projects),
            Route("/v1/projects/{project}", self._project),
            Route("/v1/projects/{project}/suggest", self._suggest, methods=["POST"]),
            Route("/v1/projects/{project}/learn", self._learn, methods=["POST"]),
            Route("/{name:path}", self._file),
        ]
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error", lifespan="off"))
        self._server, self._thread = server, threading.Thread(target=server.run, daemon=True)

    def __enter__(self):
        self.reset()
        self._thread.start()
        end = time.monotonic() + LONGEST
        while not self._server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        (listening,) = self._server.servers
        self.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        return self

    def __exit__(self, *error):
        self.free.set()
        self._server.should_exit = True
        self._thread.join(LONGEST)
        assert not self._thread.is_alive()

    def reset(self):
        self.projects, self.results, self.known = [project()], RESULTS, {}
        self.problem, self.token, self.asked, self.refused, self.free = None, None, [], Counter(), threading.Event()
        self.free.set()

    def hold(self):
        self.free.clear()

    def wait_for(self, count):
        """Wait until so many texts have arrived: what the page shows while it asks is shown before."""
        end = time.monotonic() + LONGEST
        while len(self.asked) < count:
            assert time.monotonic() < end
            time.sleep(0.01)

    def _refuse(self, status, detail, title="Refused"):
        self.refused[status] += 1
        content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        return JSONResponse(content, status, media_type="application/problem+json")

    async def _check(self, request):
        """Return an answer that refuses a request, or None."""
        import anyio

        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            wrong = "authorization" in request.headers
            return self._refuse(401, "the token is wrong" if wrong else "a token is needed", "Unauthorized")
        if request.method == "POST":
            end = time.monotonic() + LONGEST
            while not self.free.is_set() and time.monotonic() < end:
                await anyio.sleep(0.01)
            if isinstance(self.problem, Response):
                self.refused[self.problem.status_code] += 1
                return self.problem
            if self.problem:
                return self._refuse(*self.problem)
        return None

    async def _projects(self, request):
        return await self._check(request) or JSONResponse({"projects": self.projects})

    async def _project(self, request):
        (found,) = [own for own in self.projects if own["project_id"] == request.path_params["project"]]
        return await self._check(request) or JSONResponse(found)

    async def _suggest(self, request):
        assert request.headers["content-type"].partition(";")[0] == "application/x-www-form-urlencoded"
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self.asked.append((request.path_params["project"], form))
        refused = await self._check(request)
        if refused:
            return refused
        if "only" not in form:
            return JSONResponse({"results": self.results})
        if form["only"] not in self.known:
            return self._refuse(400, f"there is no label {form['only']!r}", "Bad Request")
        return JSONResponse({"results": [self.known[form["only"]]]})

    async def _learn(self, request):
        self.asked.append((request.path_params["project"], await request.json()))
        return await self._check(request) or Response(status_code=204)

    async def _file(self, request):
        name = request.path_params["name"] or "page.html"
        if name not in TYPES:
            return self._refuse(404, f"there is no {name}")
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        content = files("xmlgp.serving").joinpath(name).read_bytes()
        return Response(content, media_type=TYPES[name], headers=headers)


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def running():
    with Server() as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


#: Messages of Chromium about answers that a test asked for.
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of (\d+) ")


@pytest.fixture
def opened(browser, server):
    """Return a function that opens the page; at the end it asked this server only, and all was quiet."""
    contexts, requests, messages, violations = [], [], [], []

    def open_page(viewport=None, allowed=(), **options):
        context = browser.new_context(viewport=viewport or {"width": 1280, "height": 900}, **options)
        context.set_default_timeout(1000 * LONGEST)
        contexts.append(context)
        context.expose_function("reportViolation", lambda directive: violations.append(directive))
        context.add_init_script(
            "document.addEventListener('securitypolicyviolation', (event) => reportViolation(event.violatedDirective))"
        )
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: message.text in allowed or messages.append(message.text))
        for event in ("pageerror", "dialog", "popup", "download", "framenavigated"):
            page.on(event, lambda found, event=event: messages.append(f"{event}: {found}"))
        page.goto(server.url)
        expect(page.locator("#about, #access:visible").filter(has_text=re.compile("label|token")).first).to_be_visible()
        # The page itself.
        messages[:] = [message for message in messages if not message.startswith("framenavigated")]
        return page

    yield open_page
    server.free.set()
    for context in contexts:
        context.close()
    assert violations == []
    assert {url for url in requests if not url.startswith(server.url)} == set()
    refused = [REFUSED.match(message) for message in messages]
    assert [message for message, match in zip(messages, refused, strict=True) if not match] == []
    assert Counter(int(match[1]) for match in refused) == server.refused


def suggest(page, text="a text editor for the desktop"):
    page.fill("#text", text)
    page.click("text='Suggest'")
    expect(page.locator("#status")).to_have_text(re.compile("labels? suggested"))


def shown(page):
    """Return the names of the labels that the list shows."""
    return page.locator("#labels > li:visible h3").all_inner_texts()


def accepted(page):
    return page.locator("#accepted bdi").all_inner_texts()


def test_suggestions_have_a_probability_a_bar_and_words(opened, server):
    page = opened()
    assert server.asked == []
    page.fill("#text", "a text editor")
    assert server.asked == []
    suggest(page, "a text editor")
    assert server.asked == [("tags", {"text": "a text editor", "explain": "4", "limit": "100"})]
    assert shown(page) == ["role::program", "interface::x11", "uitoolkit::gtk", "scope::application"]
    numbers = [text.replace("\xa0", " ") for text in page.locator("#labels li:visible .number").all_inner_texts()]
    assert numbers == ["> 99 % ± < 1 %", "93 % ± 2 %", "62 % ± 9 %", "30 % ± 12 %"]
    bars = page.evaluate(
        """() => Array.from(document.querySelectorAll("#labels li:not([hidden]) .track > *"),
            (part) => part.getBoundingClientRect().width / part.parentElement.clientWidth)"""
    )
    assert bars == pytest.approx([0.998, 0.003, 0.93, 0.04, 0.62, 0.18, 0.3, 0.24], abs=0.01)
    first = page.locator("#labels > li").first
    assert first.locator("dt").all_inner_texts() == ["For", "Against"]
    assert [text.replace("\xa0", " ") for text in first.locator("dd").all_inner_texts()] == [
        "window +1.23, toolkit +0.50",
        "kernel −0.31",
    ]
    # A URI is shown where it is not the name.
    assert page.locator("#labels .uri").all_inner_texts() == ["http://example.org/tags/gtk"]


def test_ctrl_enter_suggests_and_an_earlier_request_is_aborted(opened, server):
    page = opened()
    server.hold()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/suggest")) as aborted:
        page.fill("#text", "one")
        page.click("text='Suggest'")
        expect(page.locator("#status")).to_have_text("Suggesting…")
        server.wait_for(1)
        page.fill("#text", "two")
        page.press("#text", "Control+Enter")
    assert "ABORTED" in aborted.value.failure
    server.free.set()
    expect(page.locator("#status")).to_have_text("4 labels suggested")
    assert [asked["text"] for _, asked in server.asked] == ["one", "two"]
    assert page.locator("#alert").inner_text() == ""
    assert page.locator("#stale").is_hidden()


def test_the_slider_filters_without_a_request_and_starts_at_the_tuned_threshold(opened, server):
    server.projects = [project(tuned={"metric": "f1-micro", "threshold": 0.1213, "limit": 10})]
    server.results = [*RESULTS[:4], label("between", 0.1212)]
    page = opened()
    suggest(page)
    assert page.locator("#level").inner_text() == "12.1\xa0%"
    assert len(shown(page)) == 4
    slider = page.get_by_role("slider", name="Threshold")
    for key, level, names in (("End", 100, 0), ("Home", 0, 5), *[("ArrowRight", at, 5) for at in range(1, 4)]):
        slider.press(key)
        assert page.locator("#level").inner_text() == f"{level}\xa0%"
        assert len(shown(page)) == names
        verb = "is" if names == 1 else "are"
        expect(page.locator("#count")).to_contain_text(f"{names} of 5 labels {verb} at or above it")
    slider.press("End")
    assert "the highest is >\xa099\xa0%" in page.locator("#count").inner_text()
    assert page.get_by_role("button", name="Accept all shown").is_disabled()
    slider.fill("62")
    assert shown(page) == [found["label"] for found in RESULTS[:3]]
    assert slider.get_attribute("aria-valuetext") == "62\xa0%: 3 labels"
    assert len(server.asked) == 1


@pytest.mark.parametrize(("limit", "words"), [(3, "the 3 best are"), (1, "the best is")])
def test_the_tuned_limit_is_kept_until_the_slider_moves(opened, server, limit, words):
    server.projects = [project(tuned={"metric": "f1-micro", "threshold": 0.1, "limit": limit})]
    page = opened()
    suggest(page)
    assert shown(page) == [found["label"] for found in RESULTS[:limit]]
    expect(page.locator("#count")).to_have_text(f"5 of 6 labels are at or above it; {words} shown, as tuned")
    expect(page.locator("#status")).to_have_text(f"{limit} label{'s' if limit > 1 else ''} suggested")
    page.click("text='Accept all shown'")
    assert page.locator("#accepted li").count() == limit
    page.get_by_role("slider", name="Threshold").fill("12")
    assert shown(page) == [found["label"] for found in RESULTS[:5]]
    expect(page.locator("#count")).to_have_text("5 of 6 labels are at or above it")


def test_without_a_tuned_threshold_it_is_30_percent(opened):
    page = opened()
    assert page.get_by_role("slider", include_hidden=True).input_value() == "30"


def test_labels_are_accepted_rejected_added_and_learned(opened, server):
    server.projects = [project(learns=True)]
    server.known = {"http://example.org/other": label("other", 0.01, uri="http://example.org/other")}
    page = opened()
    suggest(page, "some text")
    page.get_by_role("button", name="Accept role::program", exact=True).click()
    gtk = page.get_by_role("button", name="Accept uitoolkit::gtk", exact=True)
    gtk.click()
    assert gtk.get_attribute("aria-pressed") == "true"
    no = page.get_by_role("button", name="Reject uitoolkit::gtk", exact=True)
    no.click()
    assert (gtk.get_attribute("aria-pressed"), no.get_attribute("aria-pressed")) == ("false", "true")
    page.get_by_role("button", name="Accept all shown").click()
    assert accepted(page) == ["role::program", "interface::x11", "scope::application"]
    page.get_by_role("button", name="Remove interface::x11").click()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove scope::application"
    # Labels that were suggested are found in the answer, also below the threshold; others are asked for.
    for name in ("use::editing", "http://example.org/other", "unknown"):
        page.get_by_label("Add a label by its name").fill(name)
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_label("Add a label by its name")).to_have_value("")
    assert [asked for _, asked in server.asked[1:]] == [
        {"text": "some text", "explain": "4", "only": name, "limit": "1"}
        for name in ("http://example.org/other", "unknown")
    ]
    assert "new label" in page.locator("#told").inner_text()
    names = ["role::program", "scope::application", "use::editing", "other", "unknown"]
    assert page.locator("#accepted li").all_inner_texts() == [
        *(f"{name}\n✕" for name in names[:4]),
        "unknown\n(new)\n✕",
    ]
    # The decisions of this text stay when it is asked for again.
    suggest(page, "some text")
    server.hold()
    button = page.locator("#learn")
    button.click()
    expect(button).to_be_disabled()
    expect(page.locator("#told")).to_have_text("The model is learning this text. This takes some seconds.")
    server.projects = [project(learns=True, vocab={"size": 593})]
    server.free.set()
    expect(button).to_be_enabled()
    expect(page.locator("#told")).to_contain_text("tags has learned this text with 5 labels")
    expect(page.locator("#about")).to_contain_text("593 labels")
    assert accepted(page) == names
    expect(page.locator("#accepted")).not_to_contain_text("(new)")
    subjects = [{"uri": name, "label": name} for name in ("role::program", "scope::application", "use::editing")]
    subjects += [{"uri": "http://example.org/other", "label": "other"}, {"label": "unknown"}]
    assert server.asked[-1] == ("tags", [{"text": "some text", "subjects": subjects}])


def test_decisions_are_of_their_text(opened, server):
    server.projects = [project(learns=True)]
    page = opened()
    suggest(page, "one")
    page.click("text='Accept all shown'")
    page.fill("#text", "another")
    expect(page.locator("#stale")).to_be_visible()
    page.click("#learn")
    expect(page.locator("#alert")).to_contain_text("suggest again first")
    page.fill("#text", "one")
    expect(page.locator("#stale")).to_be_hidden()
    suggest(page, "another")
    assert accepted(page) == []
    assert len(server.asked) == 2
    page.click("#learn")
    expect(page.locator("#alert")).to_have_text("Accept or add a label first.")


def test_labels_that_were_added_before_the_text_stay(opened, server):
    server.known = {"known": label("known", 0.5)}
    page = opened()
    page.fill("#name", "known")
    page.press("#name", "Enter")
    expect(page.locator("#accepted bdi")).to_have_text("known")
    suggest(page)
    assert accepted(page) == ["known"]
    # A project that does not learn has no new labels.
    page.fill("#name", "unknown")
    page.press("#name", "Enter")
    expect(page.locator("#alert")).to_have_text("There is no label 'unknown'.")
    assert page.locator("#name").input_value() == "unknown"
    assert accepted(page) == ["known"]


def test_everything_can_be_done_by_keyboard(opened, server):
    server.projects = [project(learns=True), project("other")]
    page = opened()

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.textContent")

    order = []
    for _ in range(8):
        page.keyboard.press("Tab")
        order.append(focused())
    button = "Suggest"
    assert order == ["project", "text", button, "open", "name", "Add", "learn", "copy"]
    page.focus("#text")
    page.keyboard.insert_text("some text")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#status")).to_have_text("4 labels suggested")
    for target in (button, "open", "threshold", "all", "yes0", "no0"):
        page.keyboard.press("Tab")
        assert focused() == target
        # What has the focus shows it.
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    pressed = [
        ("a", "yes0"),
        ("ArrowDown", "yes1"),
        ("ArrowDown", "yes2"),
        ("r", "no2"),
        ("ArrowUp", "no1"),
        ("a", "yes1"),
    ]
    for key, target in [
        *pressed,
        ("ArrowDown", "yes2"),
        ("ArrowDown", "yes3"),
        ("ArrowDown", "yes3"),
        ("Space", "yes3"),
    ]:
        page.keyboard.press(key)
        assert focused() == target
    assert accepted(page) == ["role::program", "interface::x11", "scope::application"]
    assert page.locator("#no2").get_attribute("aria-pressed") == "true"
    page.keyboard.press("A")
    assert accepted(page) == ["role::program", "interface::x11"]
    page.focus("#learn")
    server.hold()
    page.keyboard.press("Enter")
    expect(page.locator("#learn")).to_be_disabled()
    server.free.set()
    expect(page.locator("#learn")).to_be_enabled()
    assert focused() == "learn"
    # Letters in fields are letters.
    page.focus("#name")
    page.keyboard.type("ar")
    assert page.locator("#name").input_value() == "ar"


def test_a_token_is_asked_for_and_sent(opened, server):
    server.token = "secret"
    page = opened()
    token = page.get_by_label("Token")
    expect(token).to_be_focused()
    assert page.locator("#alert").inner_text() == ""
    for wrong, answer in (("wrong", "The token is wrong."), ("ü", re.compile("ASCII"))):
        token.fill(wrong)
        token.press("Enter")
        expect(page.locator("#alert")).to_have_text(answer)
        expect(token).to_be_visible()
    token.fill("secret")
    page.click("text='Use this token'")
    expect(page.locator("#about")).to_contain_text("592 labels")
    expect(token).to_be_hidden()
    assert page.locator("#alert").inner_text() == ""
    suggest(page)
    # What failed for want of a new token is done with it.
    server.token = "next"
    page.click("text='Suggest'")
    expect(token).to_be_focused()
    token.fill("next")
    token.press("Enter")
    expect(token).to_be_hidden()
    expect(page.locator("#status")).to_have_text("4 labels suggested")
    kept = "JSON.stringify([localStorage, sessionStorage, document.cookie, document.getElementById('token').value])"
    assert page.evaluate(kept) == '[{},{},"",""]'


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        ((400, "limit is 'x'", "Bad Request"), "Limit is 'x'."),
        ((503, "busy; try again later", "Service Unavailable"), "Busy; try again later."),
        ((413, HOSTILE, "Too Large"), f"{HOSTILE}."),
        (Response("<h1>gateway</h1>", 502), "The server answered with status 502."),
        (Response('"text"', 500), "The server answered with status 500."),
    ],
)
def test_errors_are_one_sentence(opened, server, problem, told):
    page = opened()
    suggest(page)
    server.problem = problem
    page.click("text='Suggest'")
    expect(page.get_by_role("alert")).to_have_text(told)
    # What was suggested before is still there, and the next attempt starts without the message.
    assert len(shown(page)) == 4
    server.problem = None
    suggest(page)
    assert page.locator("#alert").inner_text() == ""


def test_learning_that_fails_says_so(opened, server):
    server.projects = [project(learns=True)]
    page = opened()
    suggest(page)
    page.click("text='Accept all shown'")
    server.problem = (503, "the model is learning; try again later", "Service Unavailable")
    page.click("#learn")
    expect(page.locator("#alert")).to_have_text("The model is learning; try again later.")
    expect(page.locator("#told")).to_have_text("The model has not learned this text.")
    expect(page.locator("#learn")).to_be_enabled()
    assert len(accepted(page)) == 4


@pytest.mark.parametrize("answer", ["{", "null", "{}", '{"results": [1]}', '{"results": [{"label": 1, "score": "x"}]}'])
def test_answers_that_are_no_answers_are_an_error(opened, server, answer):
    page = opened()
    page.route("**/suggest", lambda route: route.fulfill(status=200, body=answer, content_type="application/json"))
    page.fill("#text", "some text")
    page.click("text='Suggest'")
    expect(page.get_by_role("alert")).to_have_text(
        re.compile("^The answer of the server (is not JSON|cannot be shown)")
    )
    expect(page.locator("#status")).to_have_text("No labels are suggested yet.")


def test_a_lost_server_is_an_error(opened):
    page = opened(allowed=["Failed to load resource: net::ERR_CONNECTION_REFUSED"])
    page.route("**/suggest", lambda route: route.abort("connectionrefused"))
    page.fill("#text", "some text")
    page.click("text='Suggest'")
    expect(page.get_by_role("alert")).to_have_text("The server cannot be reached, or ended the connection.")
    expect(page.locator("#status")).to_have_text("No labels are suggested yet.")


def test_an_empty_text_is_not_sent(opened, server):
    page = opened()
    page.fill("#text", " \n")
    page.click("text='Suggest'")
    expect(page.get_by_role("alert")).to_have_text("Write or paste a text first.")
    expect(page.locator("#text")).to_be_focused()
    assert server.asked == []


def test_one_of_several_projects_is_chosen(opened, server):
    names = ["one", HOSTILE, "..two?#%41&+ ü"]
    server.projects = [project(name, explains=name == "one", learns=name != "one") for name in names]
    # The name of a folder has no slash.
    server.projects[1]["project_id"] = HOSTILE.replace("/", "")
    page = opened()
    choice = page.get_by_label("Project")
    assert choice.locator("option").all_inner_texts() == names
    suggest(page)
    assert page.locator("#learn").is_hidden()
    choice.select_option(index=2)
    assert shown(page) == []
    expect(page.locator("#learn")).to_be_visible()
    suggest(page)
    assert [(name, "explain" in asked) for name, asked in server.asked] == [("one", True), (names[2], False)]


@pytest.mark.parametrize("allowed", [True, False])
def test_accepted_labels_are_copied_or_selected(opened, server, allowed):
    page = opened(permissions=["clipboard-read", "clipboard-write"] if allowed else [])
    if not allowed:
        # As on a page by plain HTTP from another machine.
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    suggest(page)
    page.click("text='Accept all shown'")
    page.click("text='Copy labels'")
    names = "\n".join(found["label"] for found in RESULTS[:4])
    if allowed:
        expect(page.locator("#told")).to_have_text("Copied 4 labels.")
        assert page.evaluate("navigator.clipboard.readText()") == names
    else:
        expect(page.locator("#told")).to_contain_text("Ctrl+C")
        assert page.evaluate("window.getSelection().toString()") == names
        expect(page.get_by_label("Accepted labels, one a line")).to_be_focused()


DROP = """([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], name));
    for (const kind of ["dragover", "drop"])
        document.getElementById("text").dispatchEvent(
            new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_files_are_dropped_or_opened(opened, server):
    page = opened()
    page.evaluate(DROP, ["a.txt", list("ein Text für alle".encode())])
    expect(page.locator("#status")).to_have_text("4 labels suggested")
    with page.expect_file_chooser() as chooser:
        page.click("text='Open a file…'")
    chooser.value.set_files({"name": "b.txt", "mimeType": "text/plain", "buffer": b"other"})
    expect(page.locator("#text")).to_have_value("other")
    expect(page.locator("#status")).to_have_text("4 labels suggested")
    page.evaluate(DROP, [HOSTILE, [0xFF, 0xFE, 0]])
    expect(page.get_by_role("alert")).to_have_text(f"{HOSTILE} is not a text in UTF-8.")
    assert page.locator("#text").input_value() == "other"
    assert [asked["text"] for _, asked in server.asked] == ["ein Text für alle", "other"]


def hostile(server):
    server.projects = [project(name, learns=True, project_id=str(place)) for place, name in enumerate(NAMES)]
    words = [{"word": name, "contribution": 1.5} for name in NAMES]
    shares = dict.fromkeys(NAMES[:2], 0.25)
    server.results = [
        label(
            name, 0.9 - 0.1 * place, uri=f"javascript:alert(1)//{name}", against=words, **{"for": words, "from": shares}
        )
        for place, name in enumerate(NAMES)
    ]


def test_hostile_names_stay_text(opened, server):
    hostile(server)
    page = opened()
    suggest(page, HOSTILE)
    names = shown(page)
    assert names[0] == HOSTILE
    assert names[1] == r"bell\u0007\u001b[31m\u0000 \u202egnp.exe\u2028line"
    assert names[2] == "w" * 200 + "…"
    assert names[3] == NAMES[3]
    page.click("text='Accept all shown'")
    assert accepted(page) == names
    page.click("#learn")
    expect(page.locator("#told")).to_contain_text("has learned this text with 5 labels")
    # What is sent is what was suggested.
    assert [subject["label"] for subject in server.asked[-1][1][0]["subjects"]] == NAMES
    for element, expected in (("script", 1), ("img", 0), ("iframe", 0), ("main a", 0), ("[onerror]", 0)):
        assert page.locator(element).count() == expected


@pytest.mark.parametrize("width", [320, 640, 900, 1280])
def test_nothing_scrolls_sideways_and_targets_are_large(opened, server, width):
    hostile(server)
    server.problem = None
    page = opened({"width": width, "height": 700})
    suggest(page)
    page.click("text='Accept all shown'")
    page.fill("#text", "other " + "x" * 3000)
    page.click("#learn")
    expect(page.locator("#alert")).not_to_be_empty()
    for element in ("documentElement", "body"):
        assert page.evaluate(f"document.{element}.scrollWidth") <= width
    sizes = page.evaluate(
        """() => Array.from(document.querySelectorAll("button, input, select, textarea"), (element) => {
            const { left, right, width, height } = element.getBoundingClientRect();
            return { name: element.id + element.textContent.slice(0, 30), left, right, width, height };
        }).filter((size) => size.width)"""
    )
    assert len(sizes) > 20
    for size in sizes:
        assert min(size["width"], size["height"]) >= 24, size
        assert 0 <= size["left"] <= size["right"] <= width, size


#: The lowest ratio of contrast of all visible text, with the element that has it.
CONTRAST = """() => {
    const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const luminance = (colour) => {
        const [r, g, b] = colour.slice(0, 3).map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
        if (!(own || element.matches("input, textarea")) || !element.checkVisibility()) continue;
        let behind = element, back;
        do back = channels(getComputedStyle(behind).backgroundColor);
        while (back[3] === 0 && (behind = behind.parentElement));
        if (back.length > 3 && back[3] > 0) throw new Error("a background is transparent in part");
        const [a, b] = [channels(getComputedStyle(element).color), back].map(luminance).sort((x, y) => y - x);
        found.push([(a + 0.05) / (b + 0.05), element.tagName + "#" + element.id + "." + element.className]);
    }
    return found;
}"""


#: Words of tables that begin in one line and end in another.
BROKEN = """() => {
    const found = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (texts.nextNode()) {
        if (!texts.currentNode.parentElement.closest("tbody")) continue;
        for (const { 0: word, index } of texts.currentNode.data.matchAll(/\\w+/g)) {
            range.setStart(texts.currentNode, index);
            range.setEnd(texts.currentNode, index + word.length);
            if (range.getClientRects().length > 1) found.push(word);
        }
    }
    return found;
}"""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_tables_of_the_interface_are_not_clipped_and_words_stay_whole(browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_content(reference_page(openapi("1")))
    page.add_style_tag(path=files("xmlgp.serving") / "page.css")
    widths = page.evaluate("""[...document.querySelectorAll(".scroll, pre, main")].map(
        (element) => [element.scrollWidth, element.clientWidth])""")
    broken = page.evaluate(BROKEN)
    page.close()
    assert len(widths) > 30
    assert all(whole <= shown for whole, shown in widths)
    assert broken == []


def test_a_deviation_is_explained_where_there_is_one(opened, server):
    page = opened()
    legend = page.locator("#legend")
    expect(legend).to_be_hidden()
    suggest(page)
    expect(legend).to_be_visible()
    expect(legend).to_contain_text("± is one standard deviation of the probability")
    server.results = [label("role::program", 0.9, None)]
    page.fill("#text", "another text")
    page.click("text='Suggest'")
    expect(page.locator("#status")).to_have_text("1 label suggested")
    expect(legend).to_be_hidden()
    assert "±" not in page.locator("#labels").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(opened, server, scheme):
    server.projects = [project(learns=True), project("other")]
    server.token = "secret"
    page = opened(color_scheme=scheme)
    tested = set()

    def check():
        found = page.evaluate(CONTRAST)
        tested.update(element for _, element in found)
        assert [element for ratio, element in found if ratio < 4.5] == []

    check()
    page.fill("#token", "secret")
    page.press("#token", "Enter")
    expect(page.locator("#about")).to_contain_text("592 labels")
    suggest(page)
    page.click("#yes0")
    page.click("#no1")
    page.fill("#name", "unknown")
    page.press("#name", "Enter")
    expect(page.locator("#accepted li")).to_have_count(2)
    check()
    server.hold()
    page.click("#learn")
    expect(page.locator("#learn")).to_be_disabled()
    check()
    server.problem = (503, "busy", "Service Unavailable")
    server.free.set()
    expect(page.locator("#alert")).not_to_be_empty()
    page.fill("#text", "other")
    check()
    assert {"P#alert.problem", "P#stale.problem stale", "BUTTON#learn.main", "SMALL#."} <= tested
    assert len(tested) > 30


def test_screen_readers_have_names_roles_and_messages(opened, server):
    server.projects = [project(learns=True), project("other")]
    server.results = RESULTS[:2]
    page = opened()
    suggest(page, "some text")
    page.click("#yes0")
    expect(page.locator("body")).to_match_aria_snapshot(
        """
        - banner:
          - heading "Suggest labels" [level=1]
          - paragraph:
            - text: Project
            - combobox "Project":
              - option "tags" [selected]
              - option "other"
        - main:
          - alert
          - region "Text":
            - heading "Text" [level=2]
            - textbox "Write or paste a text, or drop a file": some text
            - paragraph:
              - button "Suggest"
              - button "Open a file…"
          - region "Suggestions":
            - heading "Suggestions" [level=2]
            - status: 2 labels suggested
            - slider "Threshold": "30"
            - paragraph: 2 of 2 labels are at or above it
            - paragraph:
              - button "Accept all shown"
            - list "Suggestions":
              - listitem:
                - heading "role::program" [level=3]
                - button "Accept role::program" [pressed]
                - button "Reject role::program"
                - paragraph: "> 99 % ± < 1 %"
                - term: For
                - definition: window +1.23, toolkit +0.50
                - term: Against
                - definition: kernel −0.31
              - listitem:
                - heading "interface::x11" [level=3]
          - region "Accepted labels":
            - heading "Accepted labels" [level=2]
            - list "Accepted labels":
              - listitem:
                - text: role::program
                - button "Remove role::program"
            - text: Add a label by its name
            - paragraph:
              - combobox "Add a label by its name"
              - button "Add"
            - paragraph:
              - button "Learn"
              - button "Copy labels"
        - contentinfo:
          - paragraph:
            - link "Interface for programs":
              - /url: v1/ui/
        """
    )
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.getElementById('status').ariaLive ?? 'polite'") == "polite"


def test_motion_is_reduced_where_it_is_wanted(opened, server):
    names = []
    for wanted in ("reduce", "no-preference"):
        page = opened(reduced_motion=wanted)
        server.hold()
        page.fill("#text", "some text")
        page.click("text='Suggest'")
        expect(page.locator("#status.busy")).to_be_visible()
        names.append(page.evaluate("getComputedStyle(document.getElementById('status'), '::after').animationName"))
        server.free.set()
        expect(page.locator("#status")).to_have_text("4 labels suggested")
    assert names == ["none", "run"]


def test_without_scripts_there_is_a_sentence(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    assert "needs JavaScript" in page.locator("noscript").inner_text()
    context.close()


def test_the_files_load_nothing_and_are_small():
    content = {name: files("xmlgp.serving").joinpath(name).read_text(encoding="utf-8") for name in TYPES}
    assert sum(len(text.encode()) for text in content.values()) < 31_000
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|new Function|https?:", content["page.js"]
    )
    assert not re.search(r"@import|url\(|https?:", content["page.css"])
    assert not re.search(r"<style| style=| on[a-z]+=|(src|href)=\"(https?:)?//", content["page.html"])
    assert re.findall(r"<script.*?>", content["page.html"]) == ['<script src="page.js" defer>']
