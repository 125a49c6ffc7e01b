"""The page: text stays text, nothing is loaded from elsewhere, and its structure is that of an accessible page."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.report.problems import explain, random_problem, ranked
from xmlgp.data.features import Features
from xmlgp.reporting.content import About, make_content
from xmlgp.reporting.evidence import Evidence
from xmlgp.reporting.report import render

HOSTILE = (
    "</td></script><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>\"'&amp;{{ 7*7 }}\ud800\0"
)

#: As a browser shows it.
SHOWN = HOSTILE.replace("\ud800", "?").replace("\0", "�")

VOID = {"meta", "link", "br", "img", "input"}


class Parsed(HTMLParser):
    """The elements of a page with their attributes and text; fails if elements are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes)
        element = (tag, dict(attributes), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for _, _, text in self._open:
            text.append(data)

    def of(self, *tags):
        return [(attributes, "".join(text)) for tag, attributes, text in self.elements if tag in tags]


def make_page(hostile=False, texts=True, explained=True, N=120, K=9, names=None):
    p, labels = random_problem(N, K)
    evidence = Evidence(K)
    text = HOSTILE if hostile else "some words"
    features = Features(csr_array(np.ones((N, 4))))
    evidence.add(ranked(p), labels, features, texts=[text] * N if texts else None, ids=[text] * N)
    about = About(
        title=text,
        facts=[(text, text)],
        counts=np.arange(K) ** 2,
        names=names or [text] * K,
        feature_names=[text] * 4,
        explain=explain if explained else None,
        rule=text,
    )
    return render(make_content(evidence, about))


@pytest.fixture(scope="module")
def page():
    return make_page(hostile=True)


@pytest.fixture(scope="module")
def parsed(page):
    return Parsed(page)


def test_text_stays_text(parsed, page):
    assert "\0" not in page.encode().decode()
    assert len(parsed.of("script")) == 1
    assert parsed.of("img", "iframe", "object", "embed", "link", "form") == []
    texts = Counter(text for _, text in parsed.of("bdi"))
    # Names, words, ids, the title and a fact; the other facts are numbers.
    assert {text for text in texts if not re.fullmatch(r"[\d.]+", text)} == {SHOWN}
    assert texts[SHOWN] > 200
    assert SHOWN in parsed.of("title")[0][1]
    shown = [text for attributes, text in parsed.of("div") if attributes.get("class") == "text"]
    assert sum(text.startswith(SHOWN) for text in shown) == 20


def test_nothing_is_loaded_from_elsewhere(parsed, page):
    for tag, attributes, _ in parsed.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            # An attribute of style would need a policy that allows all of them.
            assert name not in ("src", "srcset", "style", "action", "xlink:href", "xmlns"), (tag, name)
            if name == "href":
                assert value.startswith("#")
    (style,) = parsed.of("style")
    (script,) = parsed.of("script")
    for text in (style[1], script[1]):
        assert not re.search(r"url\(|@import|https?:|//[a-z]+\.|fetch|XMLHttp|innerHTML|eval", text.replace("// ", ""))


def test_the_policy_allows_this_style_and_this_script_only(parsed):
    (policy,) = [a["content"] for a, _ in parsed.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    expected = {}
    for tag in ("style", "script"):
        ((_, text),) = parsed.of(tag)
        expected[tag] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{expected['style']}'; script-src 'sha256-{expected['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_structure_is_that_of_an_accessible_page(parsed):
    assert parsed.of("html")[0][0] == {"lang": "en"}
    levels = [int(tag[1]) for tag, _, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in [a for a, _ in parsed.of("meta")]
    ids = Counter(attributes.get("id") for _, attributes, _ in parsed.elements)
    assert {name: count for name, count in ids.items() if count > 1 and name} == {}
    for _, attributes, _ in parsed.elements:
        targets = attributes.get("aria-labelledby", "").split() + [attributes.get("href", "")[1:]]
        assert ids.keys() >= set(filter(None, targets))
    charts = [attributes for attributes, _ in parsed.of("svg") if "role" in attributes]
    assert len(charts) == len(parsed.of("desc")) == 3
    # What other pictures show is beside them in words.
    assert all(
        attributes.get("aria-hidden") == "true" for attributes, _ in parsed.of("svg") if "role" not in attributes
    )
    for attributes in charts:
        assert attributes["role"] == "img"
        assert re.fullmatch(r"\S+-title \S+-description", attributes["aria-labelledby"])
    assert len(parsed.of("table")) == len(parsed.of("caption")) == 3 + 2 + 1 + 20
    heads = [attributes for attributes, _ in parsed.of("th")]
    assert all(attributes["scope"] in ("col", "row") for attributes in heads)
    assert [attributes for attributes, _ in parsed.of("button")] == [{"type": "button"}] * 32
    sorts = [attributes["aria-sort"] for attributes in heads if "aria-sort" in attributes]
    assert sorts == ["descending", "descending", "ascending"]


def test_pages_with_little_data_or_fewer_facts():
    plain = make_page(texts=False, explained=False)
    assert Parsed(plain).of("b")
    assert "For it:" not in plain
    assert "Text of document" not in plain
    parsed = Parsed(make_page(N=4, K=3))
    assert len(parsed.of("desc")) == 3
    assert "Fewer than 50 documents are too few to judge a model by." in [text for _, text in parsed.of("b")]
    assert not any("nan" in str(attributes) for attributes, _ in parsed.of("rect", "circle"))
    # No training point has a label.
    p, labels = random_problem(60, 9)
    evidence = Evidence(9)
    evidence.add(ranked(p), labels)
    parsed = Parsed(render(make_content(evidence, About(title="t", counts=np.zeros(9, int)))))
    assert len(parsed.of("table")) == 3 + 1 + len(evidence.sample)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Return the contrast ratio of WCAG 2."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def colours(style):
    """Return the colours of the light and of the dark theme, by their names."""
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in style.split("@media", 2)[:2])
    assert light.keys() == dark.keys()
    return light, dark


def test_colours_have_contrast(parsed):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for theme in colours(parsed.of("style")[0][1]):
        pairs = [
            *product(("text", "muted", "link", "a", "b"), ("back", "box")),
            ("good", "good-back"),
            ("bad", "bad-back"),
        ]
        assert [pair for pair in pairs if contrast(*map(theme.get, pair)) < 4.5] == []
        # Marks, and what they are drawn on.
        marks = product(("a", "b", "text", "muted"), ("back", "box", "line"))
        assert [pair for pair in marks if contrast(*map(theme.get, pair)) < 3] == []


def test_nothing_moves(parsed):
    assert not re.search(r"animation|transition|scroll-behavior", parsed.of("style")[0][1])


def test_the_page_begins_with_three_answers(parsed):
    heads = [text for tag, _, parts in parsed.elements if tag == "h2" for text in ["".join(parts)]]
    assert heads[:4] == [
        "How good is it?",
        "Can its probabilities be trusted?",
        "What goes wrong most often?",
        "Measures",
    ]
    shorts = [text for attributes, text in parsed.of("strong") if attributes.get("class") == "short"]
    assert len(shorts) == 3
    assert shorts[1] in ("Yes", "Roughly", "No", "Unclear")
