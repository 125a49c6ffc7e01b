import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.data.loopback import (
    CERTIFICATE,
    LoopbackServer,
    endless,
    never_answer,
    raw,
    redirect,
    serve,
    stall,
    status,
    truncate,
)
from xmlgp.data.download import NetworkError, NotFoundError, check_web_address, download
from xmlgp.errors import FetchError

BODY = bytes(range(256)) * 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def target(tmp_path):
    (tmp_path / "partial").mkdir()
    return tmp_path / "partial" / "train.txt"


@pytest.fixture(autouse=True)
def retries(monkeypatch):
    """Set the number of retries, none of which waits; two by default."""

    def set_retries(count):
        monkeypatch.setattr("xmlgp.data.download.RETRY_DELAYS", (0.0,) * count)

    set_retries(2)
    return set_retries


@pytest.fixture
def short_timeout(monkeypatch):
    """For servers that never answer: a good answer may take longer on a busy machine."""
    monkeypatch.setattr("xmlgp.data.download.TIMEOUT", 0.1)


def get(server, target, limit=10**6, **options):
    download(f"{server.url}/train.txt", target, limit, **options)
    return target.read_bytes()


def requested_ranges(server):
    return [headers.get("Range") for _, headers in server.requests]


def remaining_files(target):
    return sorted(path.name for path in target.parent.glob("*"))


def test_download_reports_bytes(server, target):
    server.answers["/train.txt"] = [serve(BODY)]
    seen = []

    @contextmanager
    def progress(label, total=None, unit="it"):
        seen.extend([label, total, unit])
        yield SimpleNamespace(update=seen.append)

    assert get(server, target, progress=progress) == BODY
    assert seen[:3] == ["train.txt", len(BODY), "B"]
    assert sum(seen[3:]) == len(BODY)


@pytest.mark.parametrize("validator", [{"ETag": '"v1"'}, {"Last_Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_retry_resumes_truncated_body(server, target, validator):
    def rest(handler):
        handler.head(206, Content_Range=f"bytes 1000-{len(BODY) - 1}/{len(BODY)}", Content_Length=len(BODY) - 1000)
        handler.wfile.write(BODY[1000:])

    server.answers["/train.txt"] = [truncate(BODY, 1000, **validator), rest]
    assert get(server, target) == BODY
    assert requested_ranges(server) == [None, "bytes=1000-"]
    assert server.requests[1][1]["If-Range"] == next(iter(validator.values()))


def test_later_call_resumes_partial_download(server, target, retries):
    retries(0)
    server.answers["/train.txt"] = [truncate(BODY, 1000, ETag='"v1"')]
    message = r"the download failed \(the end is missing\); 1000 bytes are kept and the next call resumes"
    with pytest.raises(NetworkError, match=message):
        get(server, target)
    assert remaining_files(target) == ["train.txt.part", "train.txt.validator"]
    server.answers["/train.txt"] = [serve(BODY, ETag='"v1"')]
    assert get(server, target) == get(server, target) == BODY
    assert requested_ranges(server) == [None, "bytes=1000-"]
    assert remaining_files(target) == ["train.txt"]


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_download_without_validator_restarts(server, target, headers):
    server.answers["/train.txt"] = [truncate(BODY, 1000, **headers), serve(BODY)]
    assert get(server, target) == BODY
    assert requested_ranges(server) == [None, None]
    target.unlink()
    server.answers["/train.txt"] = [truncate(BODY, 1000, **headers)]
    with pytest.raises(NetworkError, match=r"the download failed \(the end is missing\)$"):
        get(server, target)
    assert remaining_files(target) == []


def test_retry_restarts_if_the_file_has_changed(server, target):
    target.with_name("train.txt.part").write_bytes(b"of an interrupted call, without a validator")
    server.answers["/train.txt"] = [truncate(BODY, 1000, ETag='"v1"'), serve(BODY[::-1], ETag='"v2"')]
    assert get(server, target) == BODY[::-1]


@pytest.mark.parametrize("answer", [never_answer, stall(BODY, 70000, ETag='"v1"')])
def test_silent_server_times_out(server, target, retries, short_timeout, answer):
    retries(0)
    server.answers["/train.txt"] = [answer]
    with pytest.raises(NetworkError, match=r"the download failed \(no data for 0\.1 seconds\)"):
        get(server, target)


def test_missing_tls_handshake_times_out(target, retries, short_timeout, monkeypatch):
    retries(0)
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NetworkError, match="no data for 0.1 seconds"):
        download(f"https://127.0.0.1:{silent.getsockname()[1]}/x", target, 10**6)


@pytest.mark.parametrize(
    "answer",
    [
        endless(OK + b"\r\n", bytes(10**5)),
        endless(CHUNKED, b"186a0\r\n%s\r\n" % bytes(10**5)),
        endless(CHUNKED + b"-1\r\n", bytes(10**5)),
    ],
    ids=["no length", "chunks", "chunk of negative size"],
)
def test_body_over_the_limit_is_refused(server, target, answer):
    server.answers["/train.txt"] = [answer]
    with pytest.raises(FetchError, match="is larger than the 1000000 bytes that the catalogue allows"):
        get(server, target)
    assert remaining_files(target) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (raw(), "Remote end closed connection without response"),
        (raw(CHUNKED, b"5\r\n123"), "the end is missing"),
        (raw(b"\x1b[2Jnonsense\r\n\r\n"), r"\x1b[2Jnonsense\r\n"),
        (endless(OK + b"a: ", bytes(10**5)), "got more than 65536 bytes when reading header line"),
        (status(503), "503 Service Unavailable"),
    ],
    ids=["no answer", "truncated chunk", "not HTTP", "header", "overloaded"],
)
def test_broken_response_is_retried_and_reported(server, target, answer, reason):
    server.answers["/train.txt"] = [answer]
    with pytest.raises(NetworkError) as error:
        get(server, target)
    assert str(error.value) == f"{server.url}/train.txt: the download failed ({reason})"
    assert len(server.requests) == 3
    assert remaining_files(target) == []


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (status(404), NotFoundError, "404 Not Found"),
        (status(403), FetchError, "403 Forbidden"),
        (raw(b"HTTP/1.1 403 \x1b[31mNo\r\n\r\n"), FetchError, r"403 \x1b[31mNo"),
        (raw(b"HTTP/1.1 403 " + b"x" * 60_000 + b"\r\n\r\n"), FetchError, f"403 {'x' * 200}…"),
    ],
    ids=["missing", "refused", "terminal control sequence", "long status"],
)
def test_refusal_is_not_retried(server, target, answer, error, reason):
    server.answers["/train.txt"] = [answer]
    with pytest.raises(error) as raised:
        get(server, target)
    assert str(raised.value) == f"{server.url}/train.txt: the server answered {reason}"
    assert len(server.requests) == 1


def test_overloaded_server_is_retried(server, target):
    server.answers["/train.txt"] = [status(503), status(429), serve(BODY)]
    assert get(server, target) == BODY


def test_redirect_is_followed(server, target):
    server.answers["/train.txt"] = [redirect("/there")]
    server.answers["/there"] = [truncate(BODY, 1000, ETag='"v1"'), serve(BODY, ETag='"v1"')]
    assert get(server, target) == BODY
    assert requested_ranges(server)[-1] == "bytes=1000-"


@pytest.mark.parametrize("to", ["file:///etc/hostname", "http://[::1", "ftp://\x1b[2J"])
def test_redirect_to_another_scheme_is_refused(server, target, to):
    server.answers["/train.txt"] = [redirect(to)]
    with pytest.raises(FetchError, match=r"/train\.txt redirects to [ -~]*, which is not allowed$"):
        get(server, target)
    assert remaining_files(target) == []


def test_redirect_loop_is_stopped(server, target):
    server.answers["/train.txt"] = [redirect("/train.txt")]
    with pytest.raises(FetchError, match=r"/train\.txt redirects more than 10 times$"):
        get(server, target)
    assert len(server.requests) == 11


@pytest.mark.parametrize("head", [b"302 Found\r\nLocation: /gone", b"404 Not Found"])
def test_endless_body_of_other_responses_is_not_read(server, target, head):
    server.answers["/train.txt"] = [endless(b"HTTP/1.1 " + head + b"\r\n\r\n", bytes(10**5))]
    with pytest.raises(NotFoundError, match="404 Not Found"):
        get(server, target)


def test_redirect_from_https_to_http_is_refused(server, target, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    server.answers["/train.txt"] = [serve(BODY)]
    with LoopbackServer(secure=True) as secure:
        secure.answers["/train.txt"] = [redirect(f"{server.url}/train.txt")]
        with pytest.raises(FetchError, match=r"^https://.* redirects to http://.*, which is not allowed$"):
            get(secure, target)
        assert server.requests == []
        server.answers["/train.txt"] = [redirect(f"{secure.url}/train.txt")]
        secure.answers["/train.txt"] = [serve(BODY)]
        assert get(server, target) == BODY


def test_unknown_certificate_is_refused(target, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with LoopbackServer(secure=True) as secure, pytest.raises(NetworkError, match="CERTIFICATE_VERIFY_FAILED"):
        get(secure, target)
    assert secure.requests == []


@pytest.mark.parametrize("credentials", ["", "me:secret%21@"])
def test_proxy_of_the_environment_is_used(server, target, monkeypatch, credentials):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", server.url.replace("//", f"//{credentials}"))
    server.answers["http://elsewhere.invalid/train.txt"] = [serve(BODY)]
    download("http://elsewhere.invalid/train.txt", target, 10**6)
    assert target.read_bytes() == BODY
    # me:secret! in Base64
    expected = "Basic bWU6c2VjcmV0IQ==" if credentials else None
    assert (
        server.requests[0][1].get("Proxy-Authorization", server.requests[0][1].get("proxy-authorization")) == expected
    )


def test_refused_connection_is_not_retried(server, target, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits"))
        with pytest.raises(NetworkError, match=r"cannot connect to 127\.0\.0\.1 \(Connection refused\).*--mirror"):
            get(server, target)


def test_unknown_host_is_reported(target, monkeypatch):
    def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(NetworkError, match=r"cannot connect to nowhere\.invalid \(Temporary failure in name res"):
        download("http://nowhere.invalid/x", target, 10**6)


@pytest.mark.parametrize(
    "address", ["", "x", "file:///etc/hostname", "http://", "http://a:b/", "http://a..b/", "http://user:secret@a/b"]
)
def test_invalid_address_is_refused(address, target):
    with pytest.raises(FetchError) as error:
        download(address, target, 1)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("address", ["http://a.org/b?c=d", "https://[::1]:80/b", "http://127.0.0.1:8000"])
def test_valid_address_is_accepted(address):
    check_web_address(address)
