"""Whatever a client sends, it gets one sentence, and others are answered as before."""

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import DETERMINISTIC
from xmlgp.errors import NumericalError
from xmlgp.serving import batching

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
        ({"text": ["x", "y"]}, "text is given 2 times"),
        *(
            ({"text": "x", "limit": value}, "limit is")
            for value in ("-1", "1.5", "", "x", "1001", "9" * 5000, "٣", "1e2")
        ),
        *(
            ({"text": "x", "threshold": value}, "threshold is")
            for value in ("-0.1", "1.1", "nan", "inf", "", ".", "1e", "_1")
        ),
        *(({"text": "x", "explain": value}, "explain is") for value in ("-1", "21", "true")),
        *(({"text": "x", "assign": value}, "assign is") for value in ("", "1", "yes")),
        ({"text": "x", "limit": ["1", "2"]}, "limit is given 2 times"),
        ({"text": "x", "only": "no such label"}, "'no such label' is not a label of the model"),
        ({"text": "x", "only": ["printing"], "without": ["printing"]}, "allow no label"),
        ({"text": "x", "without": "a\x1b[31m\nb"}, "not a label"),
        ({"text": "x", "explain": "1", "limit": "101"}, "limit is 101, but with explain"),
        ({"text": "x", "assign": "true", "threshold": "0.5"}, "assign and threshold"),
    ],
)
def test_wrong_fields_are_named(client, fields, reason):
    check_problem(client.post(SUGGEST, data=fields), 400, reason)
    if "text" in fields and fields["text"] == "x":
        asked = {name: value for name, value in fields.items() if name != "text"}
        check_problem(client.post(BATCH, params=asked, json={"documents": [{"text": "x"}]}), 400, reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "too many values"),
        (b'{"documents": NaN}', "not JSON"),
        (b"1" * 10_000, "not JSON"),
        (b'{"documents": "\xff"}', "not UTF-8"),
        (b"\xff\xfe{\0}\0", "not UTF-8"),
        (b'{"documents": [], "limit": 3}', "limit is in the body; for a batch it must be in the query"),
        (b"[]", "the body is not an object"),
        (b"{}", "documents is missing"),
        (b'{"documents": {}}', "documents is not a list"),
        (b'{"documents": [7]}', r"documents\[0\] is not an object"),
        (b'{"documents": [{"text": "x"}, {}]}', r"documents\[1\].text is missing"),
        (b'{"documents": [{"text": null}]}', r"documents\[0\].text is not text"),
        (b'{"documents": [{"text": ["x"]}]}', r"documents\[0\].text is not text"),
        (b'{"documents": [{"text": "\\ud800"}]}', r"documents\[0\].text has half of a surrogate pair"),
        (b'{"documents": [{"text": "x", "document_id": "\\udfff"}]}', r"documents\[0\].document_id has half"),
        (b'{"documents": [{"text": "x", "document_id": 7}]}', r"documents\[0\].document_id is not text or null"),
        (
            json.dumps({"documents": [{"text": "x"}] * 33}).encode(),
            "documents has 33 items, but at most 32 are allowed",
        ),
    ],
)
def test_a_wrong_batch_is_refused(client, body, reason):
    check_problem(client.post(BATCH, content=body, headers=IN_JSON), 400, reason)


@pytest.mark.parametrize(
    "body", [b"text=\xff", b"text=%ff", b"text=a&%c3=b", "text=ä".encode("latin-1"), "text=ä".encode("utf-16")]
)
def test_a_form_that_is_not_utf8_is_refused(client, body):
    check_problem(
        client.post(SUGGEST, content=body, headers=FORM), 400, "the form is not UTF-8|the field text is missing"
    )


def test_a_query_that_is_not_utf8_is_refused(client):
    check_problem(client.post(f"{BATCH}?only=%ff", json={"documents": []}), 400, "the query is not UTF-8")


def test_no_body_is_refused(client):
    check_problem(client.post(SUGGEST, headers=FORM), 400, "the field text is missing")
    check_problem(client.post(BATCH, headers=IN_JSON), 400, "not JSON")
    check_problem(client.post(SUGGEST), 415, "the body has no type")


def test_too_many_fields_are_refused(client):
    check_problem(client.post(SUGGEST, content=b"a=1&" * 20_000, headers=FORM), 400, "more than 10000 fields")


@pytest.mark.parametrize(
    "kind", [None, "", "text/plain", "application/json", "multipart/form-data; boundary=x", "\x7f"]
)
def test_a_wrong_type_is_refused(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    check_problem(client.post(SUGGEST, content=b"text=x", headers=headers), 415, "application/x-www-form-urlencoded")


def test_unknown_projects_paths_and_methods_are_refused(client):
    for name in ("none", "Tickets", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "a%0ab%1b[31m", "x" * 5000, "%ff"):
        check_problem(client.get(f"/v1/projects/{name}"), 404, "there is no")
        check_problem(client.post(f"/v1/projects/{name}/suggest", data={"text": "x"}), 404, "there is no")
    check_problem(client.get("/v1/projects/"), 404, "there is no '/v1/projects/'")
    check_problem(client.get("/v2/"), 404, "there is no '/v2/'")
    check_problem(client.get(SUGGEST), 405, "does not take GET")
    check_problem(client.request("DELETE", PROJECT), 405, "does not take DELETE")
    check_problem(client.get("/page.html"), 404)
    check_problem(client.get("/../app.py"), 404)


def test_a_large_body_is_refused_before_it_is_read_or_while_it_comes(client_of, model):
    client = client_of(model, largest=1000)
    check_problem(client.post(SUGGEST, data={"text": "x" * 1000}), 413, "more than 1000 bytes")

    def pieces():
        for _ in range(100):
            yield b"x" * 100

    check_problem(client.post(SUGGEST, content=pieces(), headers=FORM), 413, "more than 1000 bytes")
    answer = client.post(SUGGEST, data={"text": "x" * 990})
    assert answer.status_code == 200


def test_what_one_request_does_wrong_is_not_told_to_others(client, monkeypatch):
    def fails(model, texts, parameters):
        if any("poison" in text for text in texts):
            raise NumericalError("the score of label 3 for point 0 is not finite")
        return [[] for _ in texts]

    monkeypatch.setattr(batching, "suggest", fails)
    check_problem(client.post(SUGGEST, data={"text": "poison"}), 400, "not finite")
    assert client.post(SUGGEST, data={"text": "x"}).status_code == 200


def test_requests_of_one_batch_fail_alone(client, monkeypatch):
    import asyncio

    from xmlgp.serving.problems import Problem
    from xmlgp.serving.requests import Parameters

    def fails(model, texts, parameters):
        if "poison" in texts:
            raise ValueError("a mistake in the program")
        return [[{"label": text}] for text in texts]

    monkeypatch.setattr(batching, "suggest", fails)

    async def ask():
        queue = batching.Queue(100, 60)
        texts = ["a", "poison", "b"]
        waiting = [asyncio.ensure_future(queue.suggest(None, [text], Parameters())) for text in texts]
        await asyncio.sleep(0)
        running = asyncio.ensure_future(queue.run())
        found = await asyncio.gather(*waiting, return_exceptions=True)
        running.cancel()
        queue.close()
        return found

    first, failed, last = asyncio.run(ask())
    assert (first, last) == ([[{"label": "a"}]], [[{"label": "b"}]])
    assert isinstance(failed, Problem)
    assert (failed.status, failed.detail) == (500, "the server failed; its log has the details")


def test_a_mistake_in_the_program_is_told_without_its_details(client, monkeypatch, capfd):
    def fails(*arguments):
        raise ValueError("/secret/path")

    monkeypatch.setattr("xmlgp.serving.app.read_form", fails)
    check_problem(client.post(SUGGEST, data={"text": "x"}), 500, "^the server failed; its log has the details$")
    monkeypatch.undo()
    assert client.post(SUGGEST, data={"text": "x"}).status_code == 200


def test_a_request_that_the_end_of_the_server_cuts_off_is_told(client, monkeypatch, capfd):
    from xmlgp.serving.lines import finish_lines

    def cut_off(*arguments):
        raise asyncio.CancelledError

    monkeypatch.setattr("xmlgp.serving.app.read_form", cut_off)
    capfd.readouterr()
    answer = client.post(SUGGEST, data={"text": "x"})
    check_problem(answer, 503, "^the server ended before the request was answered; try again later$")
    assert answer.headers["Retry-After"] == "1"
    finish_lines()
    (line,) = capfd.readouterr().err.splitlines()
    assert " 503 " in line


def test_a_full_queue_and_slow_answers_are_told(client_of, model, monkeypatch):
    import threading

    begun, go_on = threading.Event(), threading.Event()

    def slow(model, texts, parameters):
        begun.set()
        assert go_on.wait(60)
        return [[] for _ in texts]

    client = client_of(model, queue=2, seconds=0.5)
    monkeypatch.setattr(batching, "suggest", slow)
    documents = {"documents": [{"text": "x"}] * 2}
    found = []
    first = threading.Thread(target=lambda: found.append(client.post(BATCH, json=documents)), daemon=True)
    first.start()
    assert begun.wait(60)
    answer = client.post(SUGGEST, data={"text": "x"})
    check_problem(answer, 503, "busy|no answer within 0.5 seconds")
    assert answer.headers["retry-after"] == "1"
    first.join(60)
    check_problem(found[0], 503, "no answer within 0.5 seconds")
    go_on.set()
    monkeypatch.undo()
    assert client.post(SUGGEST, data={"text": "x"}).status_code in (200, 503)


fields = st.dictionaries(
    st.sampled_from(["text", "limit", "threshold", "explain", "only", "without", "assign", "language", "\0", "x"]),
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


@pytest.fixture(scope="module")
def shared_client(model):
    from starlette.testclient import TestClient

    from xmlgp.serving.app import make_app
    from xmlgp.serving.options import Options

    with TestClient(make_app(Options((str(model),), learns=False)), "http://localhost") as client:
        yield client


def test_any_form_is_answered(shared_client):
    @DETERMINISTIC
    @given(fields, st.booleans())
    def check(fields, has_text):
        found = {"text": "screen"} | fields if has_text else fields
        encoded = {
            name: value if isinstance(value, bytes) else value.encode(errors="replace") for name, value in found.items()
        }
        from urllib.parse import urlencode

        check_any(shared_client.post(SUGGEST, content=urlencode(encoded), headers=FORM))

    check()


def test_any_json_is_answered(shared_client):
    @DETERMINISTIC
    @given(values, st.integers(0, 200), st.binary(max_size=3))
    def check(value, place, damage):
        sent = json.dumps(value).encode()
        check_any(shared_client.post(BATCH, content=sent, headers=IN_JSON))
        sent = json.dumps({"documents": [value]}).encode()
        check_any(shared_client.post(BATCH, content=sent, headers=IN_JSON))
        check_any(shared_client.post(BATCH, content=sent[:place] + damage + sent[place:], headers=IN_JSON))

    check()


def test_any_bytes_are_answered(shared_client):
    @DETERMINISTIC
    @given(st.binary(max_size=200), st.sampled_from([SUGGEST, BATCH, PROJECT, "/"]), st.sampled_from([FORM, IN_JSON]))
    def check(body, path, headers):
        check_any(shared_client.post(path, content=body, headers=headers))

    check()


@pytest.mark.parametrize("values", [b"[],", b"{},", b"[[[[[[[[", b"1,"], ids=bytes.decode)
def test_json_of_next_to_nothing_but_values_is_not_read(client, values):
    body = b'{"documents": [' + values * (3_000_000 // len(values)) + b"0]}"
    check_problem(client.post(BATCH, content=body, headers=IN_JSON), 400, "too many values for its size")


def test_many_short_documents_are_read():
    from xmlgp.serving.requests import read_json

    documents = [{"text": "a", "subjects": [{"uri": "b"}]}] * 50_000
    assert read_json(json.dumps(documents, separators=(",", ":")).encode()) == documents
