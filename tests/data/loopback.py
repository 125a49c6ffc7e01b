"""A web server on the loopback interface that answers as a test tells it, correctly or not."""

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["CERTIFICATE", "LoopbackServer", "endless", "raw", "redirect", "serve", "stall", "status", "truncate"]

#: A self-signed certificate for 127.0.0.1, valid until 2120, with its key. Only the tests trust it.
CERTIFICATE = Path(__file__).with_name("loopback.pem")


class LoopbackServer(ThreadingHTTPServer):
    """Answers a request for a path with the first of `answers[path]` (functions), and removes it unless it is the last.

    `requests` has the path and the headers of each request; `closing` is set at the end of the test.
    """

    daemon_threads = True

    def __init__(self, secure=False):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http{'s' * secure}://127.0.0.1:{self.server_port}"
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            # The thread of each connection does the handshake, so that a client that hangs up does not end the server.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.answers, self.requests = {}, []
        self.closing = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        """Print nothing: clients hang up in many tests."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        answers = self.server.answers.get(self.path, [status(404)])
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *args):
        pass

    def head(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


def serve(body):
    """Answer with `body`."""
    return truncate(body, len(body))


def truncate(body, size):
    """Announce `body` but close the connection after `size` bytes."""

    def answer(handler):
        handler.head(200, Content_Length=len(body))
        handler.wfile.write(body[:size])

    return answer


def stall(body, size):
    """Announce `body` but send nothing after `size` bytes, until the end of the test."""

    def answer(handler):
        truncate(body, size)(handler)
        handler.wfile.flush()
        handler.server.closing.wait(60)

    return answer


def endless(start, piece):
    """Send `start` and then `piece` again and again."""

    def answer(handler):
        with contextlib.suppress(OSError):
            handler.wfile.write(start)
            while not handler.server.closing.is_set():
                handler.wfile.write(piece)

    return answer


def raw(content):
    """Send these bytes, without a head of their own, and close the connection."""
    return lambda handler: handler.wfile.write(content)


def status(code, **headers):
    """Answer with a status and no body."""
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def redirect(to):
    """Redirect to another address."""
    return status(302, Location=to)
