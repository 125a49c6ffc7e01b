"""A web server on the loopback interface that answers, and misbehaves, as a test tells it."""

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["CERTIFICATE", "Loopback", "breaks_off", "drips", "endless", "raw", "redirect", "stalls", "status", "whole"]

#: For 127.0.0.1, until 2120, signed by itself, with its key, which is no secret: nobody trusts it but the tests.
CERTIFICATE = Path(__file__).with_name("loopback.pem")


class Loopback(ThreadingHTTPServer):
    """Answers a request for a path with the first of `answers[path]`, dropping it unless it is the last.

    Parameters
    ----------
    secure : bool
        Speak https, with `CERTIFICATE`, instead of http.
    """

    daemon_threads = True

    def __init__(self, secure=False):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http{'s' * secure}://127.0.0.1:{self.server_port}"
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            # Hands are shaken in the thread of each connection: clients that hang up then are part of the tests.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.answers, self.requests = {}, []
        self.finished = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.finished.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        """Say nothing: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        answers = self.server.answers.get(self.path, [status(404)])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer(self)

    def log_message(self, *args):
        pass

    def head(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


def whole(body, **headers):
    """Answer with `body`, or its range asked for if the header ETag is given and still the same."""

    def answer(handler):
        start, extra, asked = 0, {}, handler.headers.get("Range")
        if asked and headers.get("ETag") == handler.headers.get("If-Range"):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return handler.head(416, Content_Range=f"bytes */{len(body)}")
            extra["Content_Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        handler.head(206 if start else 200, Content_Length=len(body) - start, **headers, **extra)
        return handler.wfile.write(body[start:])

    return answer


def breaks_off(body, after, **headers):
    """Announce `body` but hang up after some bytes."""

    def answer(handler):
        handler.head(200, Content_Length=len(body), **headers)
        handler.wfile.write(body[:after])

    return answer


def stalls(body, after, **headers):
    """Announce `body` but fall silent after some bytes."""

    def answer(handler):
        breaks_off(body, after, **headers)(handler)
        handler.wfile.flush()
        handler.server.finished.wait(20)

    return answer


def endless(line=b"0 0:1\n"):
    """Never stop sending, without saying how much."""

    def answer(handler):
        handler.head(200)
        with contextlib.suppress(OSError):
            while not handler.server.finished.is_set():
                handler.wfile.write(line * 10000)

    return answer


def drips(start, drop, pause=0.02):
    """Send some bytes as they are, then a drop again and again, for ever."""

    def answer(handler):
        with contextlib.suppress(OSError):
            handler.wfile.write(start)
            while not handler.server.finished.wait(pause):
                handler.wfile.write(drop)

    return answer


def raw(*pieces):
    """Send bytes as they are, then hang up."""
    return lambda handler: handler.wfile.write(b"".join(pieces))


def status(code, **headers):
    """Answer with a status and no body."""
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def redirect(to, code=302):
    """Send elsewhere."""
    return status(code, Location=to)
