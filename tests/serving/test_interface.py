"""What Annif's interface has beside suggestions: projects, and who may ask; and how the server tells how it is."""

import re
from datetime import datetime, timezone

import pytest

import xmlgp
from tests.serving.toy import make_model, texts_and_labels

PROJECTS = "/v1/projects"


def test_projects_are_described_as_annif_does(client, model):
    (project,) = client.get(PROJECTS).json()["projects"]
    assert client.get(f"{PROJECTS}/tickets").json() == project
    modified = datetime.fromtimestamp((model / "model.json").stat().st_mtime, timezone.utc)
    told = datetime.strptime(project.pop("modification_time"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    assert abs((told - modified).total_seconds()) < 1e-3
    assert project == {
        "project_id": "tickets",
        "name": "tickets",
        "language": "und",
        "backend": {"backend_id": "xmlgp"},
        "vocab": {"vocab_id": "tickets", "languages": [], "size": 5, "loaded": True},
        "vocab_language": None,
        "is_trained": True,
        "learns": False,
        "explains": True,
        "tuned": None,
    }
    assert client.get("/v1/").json() == {"title": "xmlgp", "version": xmlgp.__version__}


def test_a_model_may_have_a_time_beyond_calendars(client_of, model, monkeypatch):
    monkeypatch.setattr("xmlgp.serving.projects.Project._latest", lambda project: (2**62 * 10**9, 1, 1))
    (project,) = client_of(model).get(PROJECTS).json()["projects"]
    assert (project["is_trained"], project["modification_time"]) == (True, None)


def test_a_tuned_model_tells_its_threshold(client_of, tmp_path):
    make_model(tmp_path / "tuned")
    texts, labels = texts_and_labels(60, seed=3)
    found = xmlgp.tune(tmp_path / "tuned", texts, labels=labels)
    (project,) = client_of(tmp_path / "tuned").get(PROJECTS).json()["projects"]
    expected = {"metric": found.metric, "threshold": found.threshold, "limit": found.limit}
    assert project["tuned"] == expected


def test_several_models_are_several_projects(client_of, model, tmp_path):
    make_model(tmp_path / "named käse", seed=1)
    client = client_of(model, tmp_path / "named käse")
    assert [own["project_id"] for own in client.get(PROJECTS).json()["projects"]] == ["tickets", "named käse"]
    assert client.post(f"{PROJECTS}/named käse/suggest", data={"text": "screen"}).status_code == 200


def test_a_link_to_a_model_is_a_project_of_its_own_name(client_of, model, tmp_path):
    for place in range(2):
        make_model(tmp_path / f"release {place}", seed=place)
    (tmp_path / "current").symlink_to("release 0")
    client = client_of(tmp_path / "current")
    assert [own["project_id"] for own in client.get(PROJECTS).json()["projects"]] == ["current"]
    (tmp_path / "next").symlink_to("release 1")
    (tmp_path / "next").rename(tmp_path / "current")
    for _ in range(2):
        found = client.post(f"{PROJECTS}/current/suggest", data={"text": "screen"}).json()["results"]
    (expected,) = xmlgp.predict(tmp_path / "release 1", ["screen"], k=10, output="probability")
    assert [own["probability"] for own in found] == [own["probability"] for own in expected["labels"]]


def test_a_token_is_needed_for_all_but_pages(client_of, model):
    client, right = client_of(model, token="s3cret"), {"Authorization": "bearer s3cret"}
    for path in (PROJECTS, f"{PROJECTS}/tickets", f"{PROJECTS}/none", "/metrics", "/v1/", "/none"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "token" in answer.json()["detail"]
        assert client.get(path, headers=right).status_code in (200, 404)
    assert client.post(f"{PROJECTS}/tickets/suggest", data={"text": "x"}).status_code == 401
    assert client.post(f"{PROJECTS}/tickets/suggest", data={"text": "x"}, headers=right).status_code == 200
    for path in ("/", "/page.css", "/page.js", "/healthz", "/v1/ui/", "/v1/openapi.json"):
        assert client.get(path).status_code == 200


def test_a_local_server_answers_for_this_machine_only(client_of, model):
    client = client_of(model, allow_host=("Tags.example.org",))
    for host in ("localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:80", "tags.example.org:443", "LOCALHOST"):
        assert client.get(PROJECTS, headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.evil"):
        answer = client.get(PROJECTS, headers={"Host": host})
        assert answer.status_code == 400
        assert "--allow-host" in answer.json()["detail"]
    elsewhere = {"Host": "evil.example"}
    assert client_of(model, is_local=False).get(PROJECTS, headers=elsewhere).status_code == 200
    token = elsewhere | {"Authorization": "Bearer t"}
    assert client_of(model, token="t").get(PROJECTS, headers=token).status_code == 200


def test_pages_of_other_origins_may_ask_only_if_allowed(client_of, model):
    own = {"Origin": "https://shop.example"}
    ask = own | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    client = client_of(model)
    assert "access-control-allow-origin" not in client.get(PROJECTS, headers=own).headers
    assert client.options(f"{PROJECTS}/tickets/learn", headers=ask).status_code == 405
    client = client_of(model, allow_origin=("https://shop.example",), token="t")
    allowed = client.options(f"{PROJECTS}/tickets/suggest", headers=ask)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
    found = client.get(PROJECTS, headers=own | {"Authorization": "Bearer t"})
    assert found.headers["access-control-allow-origin"] == "https://shop.example"
    # Whoever has no token must be able to read that.
    assert client.get(PROJECTS, headers=own).headers["access-control-allow-origin"] == "https://shop.example"
    others = client.get(PROJECTS, headers={"Origin": "https://evil.example", "Authorization": "Bearer t"})
    assert "access-control-allow-origin" not in others.headers


def test_answers_say_what_browsers_may_do(client):
    for path in ("/", PROJECTS, "/none"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"


def test_metrics_count_requests_and_documents(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    client.post(f"{PROJECTS}/tickets/suggest", data={"text": "x"})
    client.post(f"{PROJECTS}/tickets/suggest-batch", json={"documents": [{"text": "x"}] * 4})
    client.get("/some/../path")
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=")
    lines = found.text.splitlines()
    assert 'xmlgp_documents_total{project="tickets"} 5.0' in lines
    assert 'xmlgp_requests_total{endpoint="/v1/projects/{project_id}/suggest",status="200"} 1.0' in lines
    assert 'xmlgp_requests_total{endpoint="other",status="404"} 1.0' in lines
    assert "xmlgp_batch_documents_sum 5.0" in lines
    assert all(re.fullmatch(r"#.*|[a-z_]+(\{.*\})? [0-9.e+-]+", line) for line in lines)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_is_logged_for_a_request_without_its_text(client_of, model, capfd, form):
    import json

    from xmlgp.serving.lines import finish_lines

    client = client_of(model, log=form)
    capfd.readouterr()
    client.post(f"{PROJECTS}/tickets/suggest", data={"text": "secret words"})
    client.get("/a%0ab%1b[31m")
    finish_lines()
    found = capfd.readouterr().err
    assert "\x1b" not in found
    first, second = found.splitlines()
    assert "secret" not in first
    if form == "json":
        first, second = json.loads(first), json.loads(second)
        assert (first["method"], first["path"], first["status"]) == ("POST", f"{PROJECTS}/tickets/suggest", 200)
        assert first["documents"] == 1
        assert first["seconds"] > 0
        assert (second["status"], second["path"]) == (404, "/a%0ab%1b[31m")
    else:
        assert re.fullmatch(
            r"[0-9T:.-]+Z testclient POST /v1/projects/tickets/suggest 200 [0-9.]+ ms 1 document", first
        )
        assert " 404 " in second


def test_the_name_of_a_client_is_escaped_in_the_log(capfd):
    import asyncio

    from xmlgp.serving.lines import finish_lines
    from xmlgp.serving.logs import RequestLog
    from xmlgp.serving.metrics import Metrics

    async def answer(scope, receive, send):
        pass

    # Uvicorn takes it from a header if a proxy on this machine passes the request on.
    scope = {"type": "http", "method": "GET", "raw_path": b"/", "client": ("10.0.0.1\x1b[2K", 0)}
    asyncio.run(RequestLog(answer, Metrics(), "text")(scope, None, None))
    finish_lines()
    found = capfd.readouterr().err
    assert "\x1b" not in found
    assert "10.0.0.1" in found
