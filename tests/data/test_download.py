"""Downloads are complete, or refused in one sentence, whatever the server sends."""

import pytest

from tests.data.loopback import CERTIFICATE, LoopbackServer, endless, raw, redirect, serve, stall, status, truncate
from xmlgp.data.download import RETRIES, NotFoundError, download
from xmlgp.errors import FetchError

BODY = bytes(range(256)) * 1000
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = bytes(10**5)


@pytest.fixture
def get(server, tmp_path, monkeypatch):
    """Return a function that downloads from a server that gives some answers; retries do not wait."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def get(*answers, server=server):
        server.answers["/train.txt"] = list(answers)
        download(f"{server.url}/train.txt", tmp_path / "train.txt", 10**6)
        return (tmp_path / "train.txt").read_bytes()

    return get


@pytest.mark.parametrize(
    "answers",
    [
        [serve(BODY)],
        [truncate(BODY, 1000), serve(BODY)],
        [status(503), status(429), serve(BODY)],
        [redirect("/train.txt"), serve(BODY)],
        [raw(CHUNKED + b"3e800\r\n%s\r\n0\r\n\r\n" % BODY)],
    ],
    ids=["whole", "truncated", "overloaded", "redirect", "chunk"],
)
def test_complete_file(get, answers):
    assert get(*answers) == BODY


TOO_LARGE = " is larger than the 1000000 bytes that the catalogue allows"
FAILED = ": the download failed ("
TRIED = RETRIES + 1

#: What the server sends, how the message goes on after the address, and the number of requests.
ANSWERS = {
    "truncated": (truncate(BODY, 1000), f"{FAILED}IncompleteRead", TRIED),
    "truncated chunk": (raw(CHUNKED + b"5\r\n123"), f"{FAILED}IncompleteRead", TRIED),
    "nothing": (raw(b""), f"{FAILED}Remote end closed connection without response", TRIED),
    "not HTTP": (raw(b"\x1b[2Jnonsense\r\n\r\n"), rf"{FAILED}\x1b[2Jnonsense", TRIED),
    "header": (endless(OK + b"a: ", PIECE), f"{FAILED}got more than 65536 bytes when reading header", TRIED),
    "overloaded": (status(503), f"{FAILED}503 Server Error", TRIED),
    "missing": (status(404), ": the server answered 404 Not Found", 1),
    "endless page": (endless(b"HTTP/1.1 404 Not Found\r\n\r\n", PIECE), ": the server answered 404 Not Found", 1),
    "control sequence": (raw(b"HTTP/1.1 403 \x1b[31mNo\r\n\r\n"), r": the server answered 403 \x1b[31mNo", 1),
    "no length": (endless(OK + b"\r\n", PIECE), TOO_LARGE, 1),
    "chunks": (endless(CHUNKED, b"186a0\r\n%s\r\n" % PIECE), TOO_LARGE, 1),
    "file": (redirect("file:///etc/hostname"), " redirects to file:///etc/hostname, which is not allowed", 1),
    "no address": (redirect("http://[::1"), f"{FAILED}Invalid IPv6 URL", TRIED),
    "loop": (redirect("/train.txt"), f"{FAILED}Exceeded 30 redirects", None),
}


@pytest.mark.parametrize(("answer", "message", "requests"), ANSWERS.values(), ids=ANSWERS)
def test_other_answers_are_refused(get, server, answer, message, requests):
    with pytest.raises(FetchError) as error:
        get(answer)
    assert str(error.value).startswith(f"{server.url}/train.txt{message}")
    assert str(error.value).isprintable()
    assert isinstance(error.value, NotFoundError) == ("404" in message)
    assert requests in (len(server.requests), None)


def test_endless_body_of_a_redirect_is_not_read(get):
    with pytest.raises(NotFoundError, match="404 Not Found"):
        get(endless(b"HTTP/1.1 302 Found\r\nLocation: /gone\r\n\r\n", PIECE))


@pytest.mark.parametrize("size", [0, 70000])
def test_silent_server_times_out(get, monkeypatch, size):
    # A good answer may take longer on a busy machine.
    monkeypatch.setattr("xmlgp.data.download.TIMEOUT", 0.1)
    with pytest.raises(FetchError, match=r"the download failed \(timed out\)"):
        get(stall(BODY, size))


def test_redirect_from_https_to_http_is_refused(get, server, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    refused = pytest.raises(FetchError, match=f"redirects to {server.url}/train.txt, which is not allowed")
    with LoopbackServer(secure=True) as secure, refused:
        get(redirect(f"{server.url}/train.txt"), server=secure)
    assert not server.requests


def test_missing_server_is_reported(get, tmp_path):
    with pytest.raises(FetchError, match=r"the download failed \(.*Connection refused\)$"):
        download("http://127.0.0.1:1/x", tmp_path / "x", 10**6)
