"""Downloads are complete, or refused in one sentence, whatever the server sends."""

import re
import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.data.loopback import (
    CERTIFICATE,
    LoopbackServer,
    drip,
    endless,
    raw,
    redirect,
    serve,
    stall,
    status,
    truncate,
)
from xmlgp.data.download import NotFoundError, download
from xmlgp.errors import FetchError

BODY = bytes(range(256)) * 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = bytes(10**5)


@pytest.fixture(autouse=True)
def retries(monkeypatch):
    """Two retries, none of which waits."""
    monkeypatch.setattr("xmlgp.data.download.RETRY_DELAYS", (0.0, 0.0))


@pytest.fixture
def get(server, tmp_path):
    """Return a function that downloads from a server that gives some answers."""

    def get(*answers, of=server, **options):
        of.answers["/train.txt"] = list(answers)
        download(f"{of.url}/train.txt", tmp_path / "train.txt", 10**6, **options)
        return (tmp_path / "train.txt").read_bytes()

    return get


def test_download_reports_bytes(get):
    seen = []

    @contextmanager
    def progress(label, total=None, unit="it"):
        seen.extend([label, total, unit])
        yield SimpleNamespace(update=seen.append)

    assert get(serve(BODY), progress=progress) == BODY
    assert seen[:3] == ["train.txt", len(BODY), "B"]
    assert sum(seen[3:]) == len(BODY)


@pytest.mark.parametrize(
    "answers",
    [
        [serve(BODY)],
        [truncate(BODY, 1000), serve(BODY)],
        [status(503), status(429), serve(BODY)],
        [redirect("/train.txt"), serve(BODY)],
        [redirect("/train.txt"), truncate(BODY, 9), redirect("/train.txt"), serve(BODY)],
        [raw(CHUNKED + b"3e800\r\n%s\r\n0\r\n\r\n" % BODY)],
    ],
    ids=["whole", "truncated", "overloaded", "redirect", "truncated after a redirect", "chunk"],
)
def test_complete_file(get, answers):
    assert get(*answers) == BODY


TOO_LARGE = " is larger than the 1000000 bytes that the catalogue allows"
FAILED = ": the download failed "
TRIED = 3

#: What the server sends, how the message goes on after the address, and the number of requests.
ANSWERS = {
    "truncated": (truncate(BODY, 1000), f"{FAILED}(the end is missing)", TRIED),
    "truncated chunk": (raw(CHUNKED + b"5\r\n123"), f"{FAILED}(the end is missing)", TRIED),
    "nothing": (raw(b""), f"{FAILED}(Remote end closed connection without response)", TRIED),
    "not HTTP": (raw(b"\x1b[2Jnonsense\r\n\r\n"), rf"{FAILED}(\x1b[2Jnonsense", TRIED),
    "header": (endless(OK + b"a: ", PIECE), f"{FAILED}(got more than 65536 bytes when reading header", TRIED),
    "overloaded": (status(503), ": the server answered 503 Service Unavailable", TRIED),
    "missing": (status(404), ": the server answered 404 Not Found", 1),
    "endless page": (endless(b"HTTP/1.1 404 Not Found\r\n\r\n", PIECE), ": the server answered 404 Not Found", 1),
    "refused": (status(403), ": the server answered 403 Forbidden", 1),
    "control sequence": (raw(b"HTTP/1.1 403 \x1b[31mNo\r\n\r\n"), r": the server answered 403 \x1b[31mNo", 1),
    "long status": (raw(b"HTTP/1.1 403 %s\r\n\r\n" % (b"x" * 60_000)), f": the server answered 403 {'x' * 200}…", 1),
    "no length": (endless(OK + b"\r\n", PIECE), TOO_LARGE, 1),
    "chunks": (endless(CHUNKED, b"186a0\r\n%s\r\n" % PIECE), TOO_LARGE, 1),
    "chunk of negative size": (endless(CHUNKED + b"-1\r\n", PIECE), TOO_LARGE, 1),
    "loop": (redirect("/train.txt"), ": the server redirects in a circle, or to an address that is not allowed", None),
}


@pytest.mark.parametrize(("answer", "message", "requests"), ANSWERS.values(), ids=ANSWERS)
def test_other_answers_are_refused(get, server, answer, message, requests):
    with pytest.raises(FetchError) as error:
        get(answer)
    assert str(error.value).startswith(f"{server.url}/train.txt{message}")
    assert str(error.value).isprintable()
    assert isinstance(error.value, NotFoundError) == ("404" in message)
    assert len(server.requests) == requests or (requests is None and len(server.requests) < 20)


@pytest.mark.parametrize("size", [None, 70000])
def test_silent_server_times_out(get, monkeypatch, size):
    # A good answer may take longer on a busy machine.
    monkeypatch.setattr("xmlgp.data.download.TIMEOUT", 0.1)
    answer = stall(BODY, size) if size else lambda handler: handler.server.closing.wait(60)
    with pytest.raises(FetchError, match=r"the download failed \(no data for 0\.1 seconds\)"):
        get(answer)


@pytest.mark.parametrize("to", ["file:///etc/hostname", "http://[::1", "ftp://\x1b[2J", "http://a..b/", "http://a:b/"])
def test_redirect_to_another_scheme_is_refused(get, to):
    with pytest.raises(FetchError, match="^[ -~]*redirects [ -~]*to an address that is not allowed[ -~]*$"):
        get(redirect(to))


def test_endless_body_of_a_redirect_is_not_read(get):
    with pytest.raises(NotFoundError, match="404 Not Found"):
        get(endless(b"HTTP/1.1 302 Found\r\nLocation: /gone\r\n\r\n", PIECE))


def test_redirect_from_https_to_http_is_refused(get, server, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with LoopbackServer(secure=True) as secure:
        with pytest.raises(FetchError, match=r"^https://.* not allowed: 'http://.*' is not .* https://$"):
            get(redirect(f"{server.url}/train.txt"), of=secure)
        assert server.requests == []
        secure.answers["/train.txt"] = [serve(BODY)]
        assert get(redirect(f"{secure.url}/train.txt")) == BODY


def test_unknown_certificate_is_refused(get):
    with LoopbackServer(secure=True) as secure, pytest.raises(FetchError, match="CERTIFICATE_VERIFY_FAILED"):
        get(serve(BODY), of=secure)
    assert secure.requests == []


@pytest.mark.parametrize("credentials", ["", "me:secret%21@"])
def test_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch, credentials):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", server.url.replace("//", f"//{credentials}"))
    server.answers["http://elsewhere.invalid/train.txt"] = [serve(BODY)]
    download("http://elsewhere.invalid/train.txt", tmp_path / "train.txt", 10**6)
    assert (tmp_path / "train.txt").read_bytes() == BODY
    # me:secret! in Base64
    expected = "Basic bWU6c2VjcmV0IQ==" if credentials else None
    headers = {name.lower(): value for name, value in server.requests[0][1].items()}
    assert headers.get("proxy-authorization") == expected


@pytest.mark.parametrize("known", [True, False])
def test_missing_network_is_reported_without_retries(tmp_path, monkeypatch, known):
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
        message = f"cannot connect to {reason}; without a network, give a copy of the data with --mirror"
        with pytest.raises(FetchError, match=f"^{re.escape(message)}$"):
            download(f"http://{host}/x", tmp_path / "x", 10**6)


@pytest.mark.parametrize(
    "address", ["", "x", "file:///etc/hostname", "http://", "http://a:b/", "http://a..b/", "http://user:secret@a/b"]
)
def test_invalid_address_is_refused(address, tmp_path):
    with pytest.raises(FetchError) as error:
        download(address, tmp_path / "x", 1)
    assert "secret" not in str(error.value)


DRIPS = {
    "headers": OK + b"X: " + b"x" * 60_000,
    "many headers": OK + b"X: x\r\n" * 10_000,
    "body": OK + b"Content-Length: 60000\r\n\r\n" + bytes(60_000),
    "size of a chunk": CHUNKED + b"1;" + b"x" * 60_000,
    "trailers": CHUNKED + b"0\r\n" + b"X: x\r\n" * 10_000,
}


@pytest.mark.parametrize("content", DRIPS.values(), ids=DRIPS)
def test_a_server_that_sends_a_byte_from_time_to_time_is_given_up(get, server, monkeypatch, content):
    monkeypatch.setattr("xmlgp.data.download.WINDOW", 0.2)
    with pytest.raises(FetchError, match=rf"^{server.url}/train.txt: the server sends fewer than 500 bytes a second$"):
        get(drip(content))
    assert len(server.requests) == 1


def test_a_slow_server_is_waited_for(get, monkeypatch):
    monkeypatch.setattr("xmlgp.data.download.WINDOW", 0.05)
    monkeypatch.setattr("xmlgp.data.download.LEAST_RATE", 1)
    assert get(drip(OK + b"Content-Length: 5\r\n\r\nhello", 0.01)) == b"hello"
