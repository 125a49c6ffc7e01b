"""Downloads are complete, resumed, or refused in one sentence, whatever the server sends."""

import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.data.loopback import CERTIFICATE, LoopbackServer, endless, raw, redirect, serve, stall, status, truncate
from xmlgp.data.download import NetworkError, NotFoundError, download
from xmlgp.errors import FetchError

BODY = bytes(range(256)) * 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = bytes(10**5)


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
def get(server, target):
    """Return a function that downloads from a server that gives some answers."""

    def get(*answers, of=server, **options):
        of.answers["/train.txt"] = list(answers)
        download(f"{of.url}/train.txt", target, 10**6, **options)
        return target.read_bytes()

    return get


def requested_ranges(server):
    return [headers.get("Range") for _, headers in server.requests]


def remaining_files(target):
    return sorted(path.name for path in target.parent.glob("*"))


def test_download_reports_bytes(get):
    seen = []

    @contextmanager
    def progress(label, total=None, unit="it"):
        seen.extend([label, total, unit])
        yield SimpleNamespace(update=seen.append)

    assert get(serve(BODY), progress=progress) == BODY
    assert seen[:3] == ["train.txt", len(BODY), "B"]
    assert sum(seen[3:]) == len(BODY)


@pytest.mark.parametrize("validator", [{"ETag": '"v1"'}, {"Last_Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_retry_resumes_truncated_body(get, server, validator):
    assert get(truncate(BODY, 1000, **validator), serve(BODY, **validator)) == BODY
    assert requested_ranges(server) == [None, "bytes=1000-"]
    assert server.requests[1][1]["If-Range"] == next(iter(validator.values()))


def test_later_call_resumes_partial_download(get, server, target, retries):
    retries(0)
    message = r"the download failed \(the end is missing\); 1000 bytes are kept and the next call resumes"
    with pytest.raises(NetworkError, match=message):
        get(truncate(BODY, 1000, ETag='"v1"'))
    assert remaining_files(target) == ["train.txt.part", "train.txt.validator"]
    assert get(serve(BODY, ETag='"v1"')) == get() == BODY
    assert requested_ranges(server) == [None, "bytes=1000-"]
    assert remaining_files(target) == ["train.txt"]


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_download_without_validator_restarts(get, server, target, headers):
    assert get(truncate(BODY, 1000, **headers), serve(BODY)) == BODY
    assert requested_ranges(server) == [None, None]
    target.unlink()
    with pytest.raises(NetworkError, match=r"the download failed \(the end is missing\)$"):
        get(truncate(BODY, 1000, **headers))
    assert remaining_files(target) == []


def test_retry_restarts_if_the_file_has_changed(get, target):
    target.with_name("train.txt.part").write_bytes(b"of an interrupted call, without a validator")
    assert get(truncate(BODY, 1000, ETag='"v1"'), serve(BODY[::-1], ETag='"v2"')) == BODY[::-1]


@pytest.mark.parametrize("size", [None, 70000])
def test_silent_server_times_out(get, retries, monkeypatch, size):
    # A good answer may take longer on a busy machine.
    monkeypatch.setattr("xmlgp.data.download.TIMEOUT", 0.1)
    retries(0)
    answer = stall(BODY, size, ETag='"v1"') if size else lambda handler: handler.server.closing.wait(60)
    with pytest.raises(NetworkError, match=r"the download failed \(no data for 0\.1 seconds\)"):
        get(answer)


@pytest.mark.parametrize(
    "answer",
    [endless(OK + b"\r\n", PIECE), endless(CHUNKED, b"186a0\r\n%s\r\n" % PIECE), endless(CHUNKED + b"-1\r\n", PIECE)],
    ids=["no length", "chunks", "chunk of negative size"],
)
def test_body_over_the_limit_is_refused(get, target, answer):
    with pytest.raises(FetchError, match="is larger than the 1000000 bytes that the catalogue allows"):
        get(answer)
    assert remaining_files(target) == []


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (raw(b""), NetworkError, "the download failed (Remote end closed connection without response)"),
        (raw(CHUNKED + b"5\r\n123"), NetworkError, "the download failed (the end is missing)"),
        (raw(b"\x1b[2Jnonsense\r\n\r\n"), NetworkError, r"the download failed (\x1b[2Jnonsense\r\n)"),
        (
            endless(OK + b"a: ", PIECE),
            NetworkError,
            "the download failed (got more than 65536 bytes when reading header",
        ),
        (status(503), NetworkError, "the download failed (503 Service Unavailable)"),
        (status(404), NotFoundError, "the server answered 404 Not Found"),
        (status(403), FetchError, "the server answered 403 Forbidden"),
        (raw(b"HTTP/1.1 403 \x1b[31mNo\r\n\r\n"), FetchError, r"the server answered 403 \x1b[31mNo"),
        (raw(b"HTTP/1.1 403 " + b"x" * 60_000 + b"\r\n\r\n"), FetchError, f"the server answered 403 {'x' * 200}…"),
    ],
    ids=["no answer", "truncated chunk", "not HTTP", "header", "overloaded", "missing", "refused"]
    + ["terminal control sequence", "long status"],
)
def test_only_failures_of_the_network_are_retried(get, server, target, answer, error, reason):
    with pytest.raises(error) as raised:
        get(answer)
    assert str(raised.value).startswith(f"{server.url}/train.txt: {reason}")
    assert len(server.requests) == (3 if error is NetworkError else 1)
    assert remaining_files(target) == []


def test_overloaded_server_is_retried(get):
    assert get(status(503), status(429), serve(BODY)) == BODY


def test_redirect_is_followed(get, server):
    server.answers["/there"] = [truncate(BODY, 1000, ETag='"v1"'), serve(BODY, ETag='"v1"')]
    assert get(redirect("/there")) == BODY
    assert requested_ranges(server)[-1] == "bytes=1000-"


@pytest.mark.parametrize("to", ["file:///etc/hostname", "http://[::1", "ftp://\x1b[2J"])
def test_redirect_to_another_scheme_is_refused(get, target, to):
    with pytest.raises(FetchError, match=r"/train\.txt redirects to [ -~]*, which is not allowed$"):
        get(redirect(to))
    assert remaining_files(target) == []


def test_redirect_loop_is_stopped(get, server):
    with pytest.raises(FetchError, match=r"/train\.txt redirects more than 10 times$"):
        get(redirect("/train.txt"))
    assert len(server.requests) == 11


@pytest.mark.parametrize("head", [b"302 Found\r\nLocation: /gone", b"404 Not Found"])
def test_endless_body_of_other_responses_is_not_read(get, head):
    with pytest.raises(NotFoundError, match="404 Not Found"):
        get(endless(b"HTTP/1.1 " + head + b"\r\n\r\n", PIECE))


def test_redirect_from_https_to_http_is_refused(get, server, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with LoopbackServer(secure=True) as secure:
        with pytest.raises(FetchError, match=r"^https://.* redirects to http://.*, which is not allowed$"):
            get(redirect(f"{server.url}/train.txt"), of=secure)
        assert server.requests == []
        secure.answers["/train.txt"] = [serve(BODY)]
        assert get(redirect(f"{secure.url}/train.txt")) == BODY


def test_unknown_certificate_is_refused(get):
    with LoopbackServer(secure=True) as secure, pytest.raises(NetworkError, match="CERTIFICATE_VERIFY_FAILED"):
        get(serve(BODY), of=secure)
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
    headers = {name.lower(): value for name, value in server.requests[0][1].items()}
    assert headers.get("proxy-authorization") == expected


@pytest.mark.parametrize("known", [True, False])
def test_missing_network_is_reported_without_retries(target, monkeypatch, known):
    def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits"))
    reason = "127.0.0.1 (Connection refused)" if known else "nowhere.invalid (Temporary failure in name resolution)"
    if not known:
        monkeypatch.setattr("socket.getaddrinfo", unknown)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}" if known else "nowhere.invalid"
        with pytest.raises(NetworkError) as caught:
            download(f"http://{host}/x", target, 10**6)
    assert str(caught.value) == f"cannot connect to {reason}; without a network, give a copy of the data with --mirror"


@pytest.mark.parametrize(
    "address", ["", "x", "file:///etc/hostname", "http://", "http://a:b/", "http://a..b/", "http://user:secret@a/b"]
)
def test_invalid_address_is_refused(address, target):
    with pytest.raises(FetchError) as error:
        download(address, target, 1)
    assert "secret" not in str(error.value)
