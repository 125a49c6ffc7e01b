"""Whatever a client sends, it gets one sentence, and others are answered as before."""

import gzip
import json
import re
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmlgp
from tests.problems import DETERMINISTIC, small_dataset
from xmlgp.runtime.errors import XmlgpError
from xmlgp.serving.projects import Project

PROJECT = "/v1/projects/tickets"
SUGGEST, BATCH = f"{PROJECT}/suggest", f"{PROJECT}/suggest-batch"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
IN_JSON = {"Content-Type": "application/json"}


def check_problem(answer, status, reason=""):
    assert answer.status_code == status, answer.content
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] == "about:blank"
    assert problem["title"]
    detail = problem["detail"]
    assert re.search(reason, detail), detail
    assert 0 < len(detail) < 300
    assert detail.isprintable()
    assert "Traceback" not in detail


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Text": "x"}, "the field text is missing"),
        ({"text": ["x", "y"]}, "text is given twice"),
        *(({"text": "x", "limit": value}, "limit is") for value in ("-1", "1.5", "", "1001", "9" * 5000)),
        *(({"text": "x", "threshold": value}, "threshold is") for value in ("-0.1", "1.1", "nan", "inf", "", "_1")),
        *(({"text": "x", "explain": value}, "explain is") for value in ("-1", "21", "true")),
        *(({"text": "x", "assign": value}, "assign is") for value in ("", "1", "yes")),
        ({"text": "x", "limit": ["1", "2"]}, "limit is given twice"),
        ({"text": "x", "explain": "1", "limit": "101"}, "limit is 101, but with explain"),
        ({"text": "x", "assign": "true", "threshold": "0.5"}, "assign and threshold"),
    ],
)
def test_wrong_fields_are_named(client, fields, reason):
    check_problem(client.post(SUGGEST, data=fields), 400, reason)
    if fields.get("text") == "x":
        asked = {name: value for name, value in fields.items() if name != "text"}
        check_problem(client.post(BATCH, params=asked, json={"documents": [{"text": "x"}]}), 400, reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 10_000, "not JSON"),
        (b'{"documents": "\xff"}', "not UTF-8"),
        (b'{"documents": [], "limit": 3}', "limit is in the body; for a batch it must be in the query"),
        (b"[]", "the body is not an object"),
        (b"{}", "documents is missing"),
        (b'{"documents": NaN}', "documents is not a list"),
        (b'{"documents": [7]}', r"documents\[0\] is not an object"),
        (b'{"documents": [{"text": "x"}, {}]}', r"documents\[1\].text is missing"),
        (b'{"documents": [{"text": null}]}', r"documents\[0\].text is not text"),
        (b'{"documents": [{"text": "\\ud800"}]}', "half of a surrogate pair"),
        (b'{"documents": [{"text": "x", "document_id": "\\udfff"}]}', "half of a surrogate pair"),
        (b'{"documents": [{"text": "x", "document_id": 7}]}', r"documents\[0\].document_id is not text or null"),
        (json.dumps({"documents": [{"text": "x"}] * 33}).encode(), "documents has 33 items, but at most 32"),
    ],
)
def test_a_wrong_batch_is_refused(client, body, reason):
    check_problem(client.post(BATCH, content=body, headers=IN_JSON), 400, reason)


@pytest.mark.parametrize("body", [b"text=\xff", b"text=%ff", "text=ä".encode("latin-1"), b"a=1&" * 2000])
def test_a_wrong_form_is_refused(client, body):
    check_problem(client.post(SUGGEST, content=body, headers=FORM), 400, "the form (is not UTF-8|has more than)")
    check_problem(client.post(f"{BATCH}?explain=%ff", json={"documents": []}), 400, "the query is not UTF-8")


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/json", "multipart/form-data; boundary=x"])
def test_a_wrong_type_is_refused(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    check_problem(client.post(SUGGEST, content=b"text=x", headers=headers), 415, "application/x-www-form-urlencoded")


def test_a_compressed_body_is_refused(client):
    for encoding in ("gzip", "br", "identity, gzip"):
        sent = FORM | {"Content-Encoding": encoding}
        check_problem(client.post(SUGGEST, content=gzip.compress(b"text=x"), headers=sent), 415, "compressed by")
    sent = FORM | {"Content-Encoding": "identity"}
    assert client.post(SUGGEST, content=b"text=x", headers=sent).status_code == 200


def test_a_large_body_is_refused_before_it_is_read_or_while_it_comes(client_of, model):
    client = client_of(model, largest=1000)
    check_problem(client.post(SUGGEST, data={"text": "x" * 1000}), 413, "more than 1000 bytes")
    pieces = (b"x" * 100 for _ in range(100))
    check_problem(client.post(SUGGEST, content=pieces, headers=FORM), 413, "more than 1000 bytes")
    assert client.post(SUGGEST, data={"text": "x" * 990}).status_code == 200


def test_unknown_projects_paths_and_methods_are_refused(client):
    for name in ("none", "Tickets", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "a%0ab%1b[31m", "x" * 5000, "%ff"):
        check_problem(client.get(f"/v1/projects/{name}"), 404)
        check_problem(client.post(f"/v1/projects/{name}/suggest", data={"text": "x"}), 404)
    for path in ("/v1/projects/", "/v2/", "/page.html", "/../app.py"):
        check_problem(client.get(path), 404)
    check_problem(client.get(SUGGEST), 405)
    check_problem(client.request("DELETE", PROJECT), 405)


def test_a_mistake_in_the_program_is_told_without_its_details(client, monkeypatch):
    def fails(*arguments):
        raise ValueError("/secret/path")

    monkeypatch.setattr("xmlgp.serving.app.read_fields", fails)
    check_problem(client.post(SUGGEST, data={"text": "x"}), 500, "^the server failed; its log has the details$")
    monkeypatch.undo()
    assert client.post(SUGGEST, data={"text": "x"}).status_code == 200


def test_a_token_is_needed_for_all_but_the_page(client_of, model):
    client, right = client_of(model, token="s3cret"), {"Authorization": "bearer s3cret"}
    for path in ("/v1/projects", PROJECT, "/v1/projects/none", "/none"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            answer = client.get(path, headers=headers)
            check_problem(answer, 401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers=right).status_code in (200, 404)
    check_problem(client.post(SUGGEST, data={"text": "x"}), 401)
    assert client.post(SUGGEST, data={"text": "x"}, headers=right).status_code == 200
    for path in ("/", "/healthz"):
        assert client.get(path).status_code == 200


def test_a_local_server_without_a_token_answers_for_this_machine_only(client_of, client, model):
    for host in ("localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:80", "LOCALHOST"):
        assert client.get(PROJECT, headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.evil", "[", ""):
        check_problem(client.get(PROJECT, headers={"Host": host}), 400, "for localhost only")
    elsewhere = {"Host": "evil.example"}
    assert client_of(model, is_local=False).get(PROJECT, headers=elsewhere).status_code == 200
    token = elsewhere | {"Authorization": "Bearer t"}
    assert client_of(model, token="t").get(PROJECT, headers=token).status_code == 200


def test_the_page_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    nonce = re.search("script-src 'nonce-([^']+)'", answer.headers["content-security-policy"])[1]
    assert f'<script nonce="{nonce}">' in answer.text
    assert f'<style nonce="{nonce}">' in answer.text
    assert not re.search("https?://|innerHTML", answer.text)
    assert client.get("/").text != answer.text
    for path in ("/", "/v1/projects", "/none"):
        assert client.get(path).headers["x-content-type-options"] == "nosniff"


def test_a_model_that_suggests_nothing_for_texts_is_refused(tmp_path, client_of):
    with pytest.raises(XmlgpError, match="none"):
        Project(tmp_path / "none").open()
    xmlgp.train(small_dataset(), tmp_path / "numbers", settings={"epochs": 1, "factors": 2})
    with pytest.raises(XmlgpError, match="numbers: the model was not trained on text"):
        Project(tmp_path / "numbers").open()
    # A server goes on without it, for its other projects.
    client = client_of(tmp_path / "numbers")
    assert client.get("/v1/projects/numbers").json()["is_trained"] is False
    check_problem(client.post("/v1/projects/numbers/suggest", data={"text": "x"}), 503, "cannot be opened now")


fields = st.dictionaries(
    st.sampled_from(["text", "limit", "threshold", "explain", "assign", "language", "\0", "x"]),
    st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str), st.binary(max_size=30)),
    max_size=5,
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["documents", "text", "document_id", "subjects", "uri", "label"]), inner),
    ),
    max_leaves=12,
)


def check_any(answer):
    if answer.status_code == 200:
        assert isinstance(answer.json(), dict | list)
    else:
        assert answer.status_code in (400, 404, 405, 413, 415)
        check_problem(answer, answer.status_code)


def test_any_form_and_any_json_are_answered(client):
    @DETERMINISTIC
    @given(fields, values, st.integers(0, 200), st.binary(max_size=3))
    def check(fields, value, place, damage):
        encoded = {
            name: value if isinstance(value, bytes) else value.encode(errors="replace")
            for name, value in ({"text": "screen"} | fields).items()
        }
        check_any(client.post(SUGGEST, content=urlencode(encoded), headers=FORM))
        sent = json.dumps({"documents": [value]}).encode()
        check_any(client.post(BATCH, content=sent, headers=IN_JSON))
        check_any(client.post(BATCH, content=sent[:place] + damage + sent[place:], headers=IN_JSON))

    check()
