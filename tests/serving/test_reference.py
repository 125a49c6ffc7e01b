"""The description of the interface: every path is in it, references lead somewhere, and the page shows all."""

import re
from html.parser import HTMLParser

import pytest

from xmlgp.serving import requests
from xmlgp.serving.reference import openapi, reference_page
from xmlgp.version import __version__

#: What clients of the interface ask for, with the statuses that they handle.
OPERATIONS = {
    ("/", "get"): {200},
    ("/healthz", "get"): {200},
    ("/metrics", "get"): {200, 401},
    ("/v1/", "get"): {200, 401},
    ("/v1/openapi.json", "get"): {200},
    ("/v1/ui/", "get"): {200},
    ("/v1/projects", "get"): {200, 401},
    ("/v1/projects/{project_id}", "get"): {200, 401, 404},
    ("/v1/projects/{project_id}/suggest", "post"): {200, 401, 404, 408, 413, 415, 503},
    ("/v1/projects/{project_id}/suggest-batch", "post"): {200, 401, 404, 408, 413, 415, 503},
    ("/v1/projects/{project_id}/learn", "post"): {204, 401, 403, 404, 408, 413, 415, 503},
}

#: How suggestions are asked for.
PARAMETERS = ["limit", "threshold", "language", "explain", "only", "without", "assign"]

VOID = {"meta", "link"}


@pytest.fixture(scope="module")
def document():
    return openapi(__version__)


@pytest.fixture(scope="module")
def operations(document):
    return {(path, method): own for path, methods in document["paths"].items() for method, own in methods.items()}


def parts(part, where=()):
    """Yield all parts of a description, with the keys that lead to them."""
    yield where, part
    if isinstance(part, (dict, list)):
        for key, own in part.items() if isinstance(part, dict) else enumerate(part):
            yield from parts(own, (*where, key))


def test_all_paths_and_statuses_are_described(document, operations):
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == __version__
    assert {
        key: {int(status) for status in own["responses"]} - {400, 405} for key, own in operations.items()
    } == OPERATIONS
    # Anything can be wrong with a request.
    assert all({"400", "405"} <= own["responses"].keys() for own in operations.values())
    names = [own["operationId"] for own in operations.values()]
    assert len(set(names)) == len(names)
    for key, own in operations.items():
        assert (own.get("security") == []) == (401 not in OPERATIONS[key])


def test_each_call_has_a_new_description():
    openapi("1")["info"]["title"] = "changed"
    assert openapi("2")["info"] | {"version": "1"} == openapi("1")["info"]


def test_references_lead_to_what_is_used(document):
    used = set()
    for where, part in parts(document):
        if isinstance(part, dict) and "$ref" in part:
            found = document
            assert part["$ref"].startswith("#/components/"), where
            for key in part["$ref"][2:].split("/"):
                found = found[key]
            used.add(part["$ref"])
    components = document["components"]
    for kind in ("parameters", "responses", "schemas"):
        assert used >= {f"#/components/{kind}/{name}" for name in components[kind]}


def test_nothing_is_cut_off_or_missing(document):
    # YAML takes the rest of a sentence after ", " or ": " for a key without a value.
    for where, part in parts(document):
        assert part is not None, where
        if where[-1:] in {("description",), ("summary",)} and isinstance(part, str):
            # A summary of an operation is a title.
            assert part.endswith(".") or where[-1] == "summary", where
            assert part.count("`") % 2 == 0, where


def test_required_fields_exist(document):
    schemas = {
        where: part
        for where, part in parts(document["components"]["schemas"])
        if isinstance(part, dict) and isinstance(part.get("required"), list)
    }
    assert schemas["SuggestForm",]["required"] == ["text"]
    for where, schema in schemas.items():
        assert set(schema["required"]) <= schema["properties"].keys(), where


def test_parameters_are_those_of_the_interface(document, operations):
    components = document["components"]
    form = components["schemas"]["SuggestForm"]
    assert list(form["properties"]) == ["text", *PARAMETERS]
    batch = operations["/v1/projects/{project_id}/suggest-batch", "post"]["parameters"]
    batch = [components["parameters"][own["$ref"].rpartition("/")[2]] for own in batch]
    assert [own["name"] for own in batch] == ["project_id", *PARAMETERS]
    assert components["schemas"]["Limit"]["maximum"] == requests.MOST_LABELS
    # A text and a batch of texts have the same limits.
    for own in batch[1:]:
        in_form = form["properties"][own["name"]]
        assert own["schema"].get("$ref") == in_form.get("$ref")
        assert (
            own["description"].replace("a text", "the text").split()[:3]
            == in_form["description"].replace("labels.", "labels of the text.").split()[:3]
        )
    for key, own in operations.items():
        named = re.findall(r"\{(\w+)\}", key[0])
        assert ["project_id"] * ("parameters" in own) == named


class Page(HTMLParser):
    """The elements of a page, the targets of its links, and its text; fails if elements are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.ids, self.links, self.text, self._open = [], [], [], "", []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page(document):
    pytest.importorskip("jinja2", reason="Jinja2 is not installed: pip install '.[serve]'")
    return Page(reference_page(document))


def test_the_page_shows_everything(document, operations, page):
    text = " ".join(page.text.split())
    for (path, method), own in operations.items():
        assert f"{method.upper()} {path}" in text
        assert own["summary"] in text
        (sample,) = own["x-codeSamples"]
        assert sample["source"].startswith("curl ")
        assert " ".join(sample["source"].split()) in text
        # The example asks for this path.
        assert f"'ADDRESS{path.replace('{project_id}', 'PROJECT')}" in sample["source"]
    for where, part in parts(document):
        if where[-1:] == ("description",) and isinstance(part, str):
            shown = " ".join(part.replace("`", "").split())
            assert shown in text or where[0] in ("tags", "servers"), where
    for name, schema in document["components"]["schemas"].items():
        if "properties" in schema:
            assert name in page.ids
            assert all(field in text for field in schema["properties"])


def test_fields_without_a_meaning_have_no_column_for_it(document):
    pytest.importorskip("jinja2", reason="Jinja2 is not installed: pip install '.[serve]'")
    tables = {
        head: re.findall(r"<th scope=\"col\"[^>]*>(\w+)</th>", table)
        for head, table in re.findall(r"<h3 id=\"(\w+)\">(.*?)</table>", reference_page(document), re.DOTALL)
    }
    assert tables["Batch"] == ["Name", "Type"]
    assert tables["Document"] == ["Name", "Type", "Meaning"]


def test_links_of_the_page_lead_somewhere(page):
    assert len(set(page.ids)) == len(page.ids)
    inner = {link[1:] for link in page.links if link.startswith("#")}
    assert inner <= set(page.ids)
    outer = [link for link in page.links if not link.startswith("#")]
    assert outer == ["data:,", "../../page.css", "../openapi.json", "../../"]


def test_the_page_keeps_to_the_policy(page):
    for tag, attributes in page.elements:
        assert tag not in ("script", "style", "iframe", "img", "form")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert ("html", {"lang": "en"}) in page.elements
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_text_of_a_description_stays_text(document):
    pytest.importorskip("jinja2", reason="Jinja2 is not installed: pip install '.[serve]'")
    hostile = "</code><script>alert(1)</script>\"'"
    changed = openapi(hostile)
    changed["info"]["summary"] = f"a `{hostile}` b"
    changed["components"]["schemas"]["About"]["properties"][hostile] = {"type": "string", "description": hostile}
    shown = Page(reference_page(changed))
    assert not [tag for tag, _ in shown.elements if tag == "script"]
    assert shown.text.count(hostile) >= 4
