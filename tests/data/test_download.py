import json
import socket
from contextlib import contextmanager

import pytest

from tests.data.loopback import CERTIFICATE, Loopback, breaks_off, endless, redirect, stalls, status, whole
from xmlgp.data.download import Interrupted, NotThere, Patience, check_web_address, download
from xmlgp.errors import FetchError

BODY = bytes(range(256)) * 1000
IMPATIENT = Patience(stall=0.3, pauses=(0.0, 0.0))
ONE_TRY = Patience(stall=0.3, pauses=())


@pytest.fixture
def target(tmp_path):
    return tmp_path / "partial" / "train.txt"


def get(server, target, patience=IMPATIENT, limit=10**6, **options):
    download(f"{server.url}/train.txt", target, limit, patience=patience, **options)
    return target.read_bytes()


def asked_for(server):
    return [headers.get("Range") for _, headers in server.requests]


def left(target):
    return sorted(path.name for path in target.parent.glob("*"))


def test_downloads_and_reports_bytes(server, target):
    server.answers["/train.txt"] = [whole(BODY)]
    seen = []

    @contextmanager
    def progress(label, total=None, unit="it"):
        seen.extend([label, total, unit])

        class Bar:
            def update(self, count):
                seen.append(count)

        yield Bar()

    assert get(server, target, progress=progress) == BODY
    assert seen[:3] == ["train.txt", len(BODY), "B"]
    assert sum(seen[3:]) == len(BODY)


@pytest.mark.parametrize("state", [{"ETag": '"v1"'}, {"Last_Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_resumes_after_the_connection_breaks_off(server, target, state):
    (validator,) = state.values()
    rest = {"Content_Range": f"bytes 1000-{len(BODY) - 1}/{len(BODY)}", "Content_Length": len(BODY) - 1000}

    def the_rest(handler):
        handler.head(206, **rest)
        handler.wfile.write(BODY[1000:])

    server.answers["/train.txt"] = [breaks_off(BODY, 1000, **state), the_rest]
    assert get(server, target) == BODY
    assert asked_for(server) == [None, "bytes=1000-"]
    assert server.requests[1][1]["If-Range"] == validator


def test_a_rest_that_comes_in_slices(server, target):
    def a_slice(handler):
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        handler.head(206, Content_Range=f"bytes {start}-{start + 99}/300", Content_Length=100)
        handler.wfile.write(BODY[start : start + 100])

    server.answers["/train.txt"] = [breaks_off(BODY[:300], 100, ETag='"v1"'), a_slice]
    assert get(server, target) == BODY[:300]
    assert asked_for(server) == [None, "bytes=100-", "bytes=200-"]


def test_resumes_in_a_later_call(server, target):
    server.answers["/train.txt"] = [breaks_off(BODY, 1000, ETag='"v1"')]
    with pytest.raises(Interrupted, match=r"the download broke off .*; 1000 bytes are kept"):
        get(server, target, patience=ONE_TRY)
    assert left(target) == ["train.txt", "train.txt.json"]
    server.answers["/train.txt"] = [whole(BODY, ETag='"v1"')]
    assert get(server, target) == BODY
    assert asked_for(server)[-1] == "bytes=1000-"


def test_a_complete_part_is_not_downloaded_again(server, target):
    server.answers["/train.txt"] = [whole(BODY, ETag='"v1"')]
    assert get(server, target) == BODY
    assert get(server, target) == BODY
    assert asked_for(server) == [None, f"bytes={len(BODY)}-"]


@pytest.mark.parametrize("state", [{}, {"ETag": 'W/"weak"'}, {"ETag": '"v1"', "Accept_Ranges": "none"}])
def test_starts_anew_where_the_server_cannot_resume(server, target, state):
    server.answers["/train.txt"] = [breaks_off(BODY, 1000, **state), whole(BODY)]
    assert get(server, target) == BODY
    assert asked_for(server) == [None, None]


def test_keeps_nothing_that_cannot_be_resumed(server, target):
    server.answers["/train.txt"] = [breaks_off(BODY, 1000)]
    with pytest.raises(Interrupted, match=r"broke off \(1000 of 256000 bytes had arrived\)$"):
        get(server, target)
    assert len(server.requests) == 3
    assert left(target) == []


@pytest.mark.parametrize(
    "second",
    [
        whole(BODY[::-1], ETag='"v2"'),  # changed: If-Range no longer holds
        status(206, Content_Range="bytes 0-9/10"),
        status(416, Content_Range="bytes */7"),
    ],
)
def test_starts_anew_when_the_rest_is_not_of_the_same_file(server, target, second):
    server.answers["/train.txt"] = [breaks_off(BODY, 1000, ETag='"v1"'), second, whole(BODY[::-1], ETag='"v2"')]
    assert get(server, target) == BODY[::-1]


@pytest.mark.parametrize("label", ["", "[]", "{", json.dumps({"address": "http://elsewhere/", "validator": "v"})])
def test_a_part_of_unknown_origin_is_not_continued(server, target, label):
    target.parent.mkdir()
    target.write_bytes(b"junk")
    target.with_name("train.txt.json").write_text(label)
    server.answers["/train.txt"] = [whole(BODY)]
    assert get(server, target) == BODY


def test_a_stalled_connection_is_given_up(server, target):
    server.answers["/train.txt"] = [stalls(BODY, 70000, ETag='"v1"')]
    with pytest.raises(Interrupted, match=r"broke off \(no byte came for 0\.3 seconds\)"):
        get(server, target, patience=ONE_TRY)
    server.answers["/train.txt"] = [whole(BODY, ETag='"v1"')]
    assert get(server, target) == BODY


def test_a_server_that_never_answers_is_given_up(server, target):
    server.answers["/train.txt"] = [lambda handler: handler.server.finished.wait(20)]
    with pytest.raises(Interrupted, match="no byte came for 0.3 seconds"):
        get(server, target, patience=ONE_TRY)


def test_an_endless_body_is_stopped(server, target):
    server.answers["/train.txt"] = [endless()]
    with pytest.raises(FetchError, match="holds more than the 1000000 bytes that the catalogue allows"):
        get(server, target)
    assert left(target) == []


def test_a_body_announced_too_large_is_not_downloaded(server, target):
    server.answers["/train.txt"] = [stalls(BODY, 10, ETag='"v1"')]
    with pytest.raises(FetchError, match="holds more than the 1000 bytes"):
        get(server, target, limit=1000)
    assert left(target) == []


@pytest.mark.parametrize("code", [404, 410])
def test_a_missing_file(server, target, code):
    server.answers["/train.txt"] = [status(code)]
    with pytest.raises(NotThere, match=rf"/train\.txt: the server answered {code} "):
        get(server, target)


def test_a_refusal_is_final_but_an_overloaded_server_is_asked_again(server, target):
    server.answers["/train.txt"] = [status(403)]
    with pytest.raises(FetchError, match="the server answered 403 Forbidden"):
        get(server, target)
    assert len(server.requests) == 1
    server.answers["/train.txt"] = [status(503), status(429), whole(BODY)]
    assert get(server, target) == BODY


@pytest.mark.parametrize(
    "to",
    ["file:///etc/hostname", "ftp://127.0.0.1/x", "gopher://127.0.0.1/", "data:,x", "http://[::1", "http://a..b/"]
    + ["http://127.0.0.1:x/", "http://user:secret@127.0.0.1/"],
)
def test_redirects_lead_only_to_other_web_addresses(server, target, to):
    server.answers["/train.txt"] = [redirect(to)]
    with pytest.raises(FetchError, match=r"/train\.txt redirects to .*, which is not followed$"):
        get(server, target)
    assert left(target) == []


def test_a_redirect_is_followed(server, target):
    server.answers["/train.txt"] = [redirect("/there")]
    server.answers["/there"] = [breaks_off(BODY, 1000, ETag='"v1"'), whole(BODY, ETag='"v1"')]
    assert get(server, target) == BODY
    assert asked_for(server)[-1] == "bytes=1000-"


def test_a_redirect_in_a_circle(server, target):
    server.answers["/train.txt"] = [redirect("/train.txt")]
    with pytest.raises(FetchError, match=r"/train\.txt redirects more than 10 times$"):
        get(server, target)
    assert len(server.requests) == 11
    assert left(target) == []


def test_a_redirect_never_leaves_https(server, target, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    server.answers["/train.txt"] = [whole(BODY)]
    with Loopback(secure=True) as secure:
        secure.answers["/train.txt"] = [redirect(f"{server.url}/train.txt")]
        with pytest.raises(FetchError, match=r"^https://.* redirects to http://.*, which is not followed$"):
            get(secure, target)
        assert server.requests == []
        server.answers["/train.txt"] = [redirect(f"{secure.url}/train.txt")]
        secure.answers["/train.txt"] = [whole(BODY)]
        assert get(server, target) == BODY


def test_a_refused_connection_is_reported_at_once(server, target, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits"))
        with pytest.raises(Interrupted, match=r"no connection to 127\.0\.0\.1 \(Connection refused\).*--mirror"):
            get(server, target)


def test_an_unknown_host_is_reported(target, monkeypatch):
    def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(Interrupted, match=r"no connection to nowhere\.invalid \(Temporary failure in name res"):
        download("http://nowhere.invalid/x", target, 10**6)


@pytest.mark.parametrize(
    "address",
    ["", "x", "ftp://a/b", "file:///etc/hostname", "http://", "http://a:b/", "http://a:0/", "http://a:99999/"]
    + ["http://[::1", "http://a b/", "http://a/b c", "http://a/\u00e4", "http://a..b/", f"http://{'a' * 64}.org/"]
    + ["http://user:secret@a/b"],
)
def test_addresses_that_are_none(address, target):
    with pytest.raises(FetchError) as error:
        download(address, target, 1)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("address", ["http://a.org/b?c=d", "https://[::1]:80/b", "http://127.0.0.1:8000"])
def test_addresses_that_are_some(address):
    check_web_address(address)
