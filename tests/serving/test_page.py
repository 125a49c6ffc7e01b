"""The page in a browser: what it shows, and what it sends to be learned."""

import html
import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

#: A browser of its own asks its maker for updates when it starts, which may take long where there is no network.
OFFLINE = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")

#: Answers as the server does. Labels that were learned are the first suggestions, but for `lost`. `needed` is the
#: token that it asks for, if any.
SERVER = """<script>
const learned = [];
let needed = "";
const suggestions = [["printer", 0.83], ["paper", 0.43], ["monitor", 0.1]];
window.fetch = async (address, { body, headers }) => {
  let value = null;
  if (needed && headers.Authorization !== `Bearer ${needed}`)
    return { status: 401, ok: false, json: async () => ({ detail: "the token is wrong" }) };
  if (address.endsWith("/suggest")) {
    const added = learned.flatMap(([{ subjects }]) => subjects.map(({ label }) => [label, 0.9]));
    const rest = suggestions.filter(([name]) => !added.some(([other]) => other === name));
    const all = [...added.filter(([name]) => name !== "lost"), ...rest];
    value = { results: all.map(([label, probability]) => ({ label, uri: label, probability, std: 0.1 })) };
  } else if (address.endsWith("/learn")) learned.push(JSON.parse(body));
  else value = { projects: [{ name: "own", project_id: "own", vocab: { size: 3 }, learns: true }] };
  return { status: value ? 200 : 204, ok: true, json: async () => value };
};
</script>"""

#: Does what a person does, and writes what is learned and shown into the page.
STEPS = """<script>
const pause = () => new Promise((done) => setTimeout(done, 20));
const items = () => [...$("labels").children].filter((item) => !item.hidden);
const shown = () => items().map((item) => item.querySelector("b").textContent);
const enter = async (name) => {
  $("name").value = name;
  $("add").requestSubmit();
  await pause();
};
(async () => {
  await pause();
  $("text").value = "The printer jams";
  $("ask").requestSubmit();
  await pause();
  const result = {};
  STEPS
  document.body.replaceChildren(make("pre", {}, JSON.stringify(result)));
})();
</script>"""


def outcome(tmp_path, steps, server=SERVER, size="800,600"):
    """Return what steps on the page have found; `result` collects it."""
    page = files("xmlgp.serving").joinpath("page.html").read_text("utf-8")
    page = page.replace("<body>", f"<body>{server}").replace("</body>", STEPS.replace("STEPS", steps) + "</body>")
    (tmp_path / "page.html").write_text(page, "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *OFFLINE]
    options.append(f"--window-size={size}")
    command = [BROWSER, *options, "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)[1]))


def test_what_is_learned_is_shown_before(tmp_path):
    found = outcome(
        tmp_path,
        """
        result.first = $("chosen").textContent;
        // A label that nobody touched stays, wherever the threshold is.
        $("threshold").value = 95;
        $("threshold").dispatchEvent(new Event("input"));
        result.shown = shown();
        await enter("third floor");
        result.second = $("chosen").textContent;
        $("learn").click();
        await pause();
        result.learned = learned[0];
        result.status = $("status").textContent;
        result.checked = checked().map(({ label }) => label);
        for (const item of items()) item.querySelector("input").click();
        result.none = $("chosen").textContent;
        await enter("lost");
        $("learn").click();
        await pause();
        result.lost = $("status").textContent;
        """,
    )
    rest = " Learn takes all other labels as wrong for it."
    assert found["first"] == f"For this text: printer.{rest}"
    assert found["shown"] == ["printer"]
    assert found["second"] == f"For this text: printer, third floor.{rest}"
    subjects = [{"label": "printer", "uri": "printer"}, {"label": "third floor"}]
    assert found["learned"] == [{"text": "The printer jams", "subjects": subjects}]
    assert found["status"] == "The model has learned this text."
    assert set(found["checked"]) == {"printer", "third floor"}
    assert found["none"] == "Check the labels that are right."
    assert found["lost"] == (
        "The model keeps this text, but does not suggest lost for it yet and still suggests printer, third floor: "
        "teach it more texts like this."
    )


def test_a_label_that_was_rejected_and_is_suggested_still_is_named(tmp_path):
    found = outcome(
        tmp_path,
        """
        items()[0].querySelector("input").click();
        await enter("paper");
        $("learn").click();
        await pause();
        result.status = $("status").textContent;
        """,
    )
    assert found["status"] == "The model keeps this text, but still suggests printer: teach it more texts like this."


def test_the_page_asks_for_the_token_and_goes_on_with_it(tmp_path):
    found = outcome(
        tmp_path,
        """
        result.without = [$("alert").textContent, $("projects").hidden, $("access").hidden];
        const type = async (token) => {
          $("token").value = token;
          $("access").requestSubmit();
          await pause();
        };
        await type("another");
        result.wrong = $("alert").textContent;
        await type("right");
        result.right = [$("alert").textContent, $("projects").hidden, $("access").hidden, shown()];
        """,
        SERVER.replace('needed = ""', 'needed = "right"'),
    )
    assert found["without"] == ["Type the token of this server first.", True, False]
    assert found["wrong"] == "The token is wrong."
    assert found["right"] == ["", False, True, ["printer", "paper"]]


@pytest.mark.parametrize("height", [600, 844])
def test_the_first_labels_are_seen_on_a_phone(tmp_path, height):
    # Headless browsers have no narrower windows than 500 pixels.
    found = outcome(
        tmp_path,
        """
        document.body.style.width = "390px";
        $("ask").requestSubmit();
        await pause();
        result.ends = items().map((item) => item.getBoundingClientRect().bottom);
        result.bar = $("use").getBoundingClientRect().top;
        """,
        size=f"500,{height}",
    )
    first, _second = found["ends"]
    assert 0 < first <= found["bar"]
