"""Download one file over HTTP.

The server is untrusted: it cannot fill the disk or the memory, redirect to another protocol, or have a truncated file
accepted.
"""

import contextlib
import http.client
import io
import string
import time
import urllib.request
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit

from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape
from xmlgp.version import __version__

__all__ = ["NotFoundError", "download"]

#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0
#: Bytes a second that a server must send, and the seconds of waiting for it over which this is measured.
LEAST_RATE = 500
WINDOW = 40.0
#: Seconds to wait before each retry after a transient failure.
RETRY_DELAYS = (1.0, 4.0, 15.0)
CHUNK = 1 << 16

NOT_FOUND = {404, 410}
#: Statuses after which a retry may help: timeout, too many requests, server failures.
TRANSIENT = {408, 429, 500, 502, 503, 504}


class NotFoundError(FetchError):
    """The server does not have the file."""


class TransientError(FetchError):
    """A failure that may not happen again."""


def download(address, path, limit, progress=silent):
    """Download a file of at most `limit` bytes, with a few retries if the network fails.

    NotFoundError is raised if the server does not have the file, FetchError for other failures, after which an
    incomplete file may remain.
    """
    _check_address(address)
    for delay in (*RETRY_DELAYS, None):
        try:
            _download_once(address, path, limit, progress)
            return
        except TransientError:
            if delay is None:
                raise
        time.sleep(delay)


def _download_once(address, path, limit, progress):
    request = urllib.request.Request(
        quote(address, safe=string.punctuation), headers={"User-Agent": f"xmlgp/{__version__}"}
    )
    with _reported_errors(address):
        # The opener uses the proxies that the environment sets.
        opener = urllib.request.build_opener(_SafeRedirects, _PacedHTTP, _PacedHTTPS)
        response = opener.open(request, timeout=TIMEOUT)
    size = 0
    with response, open(path, "wb") as file, progress(path.name, total=response.length, unit="B") as bar:
        while True:
            with _reported_errors(address):
                # Unlike read(), read1() keeps to this size for a chunk whose declared size is -1.
                chunk = response.read1(CHUNK)
                if not chunk and response.length:
                    raise http.client.IncompleteRead(b"", response.length)
            if not chunk:
                return
            size += len(chunk)
            if size > limit:
                raise FetchError(f"{address} is larger than the {limit} bytes that the catalogue allows")
            file.write(chunk)
            bar.update(len(chunk))


class _TooSlowError(Exception):
    """The server sends less than `LEAST_RATE`."""


class _Paced(io.RawIOBase):
    """Reads a connection as long as the server sends enough; a timeout alone begins again with each byte."""

    def __init__(self, connection: io.RawIOBase) -> None:
        self._connection = connection
        self._waited = 0.0
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:
        began = time.monotonic()
        size = self._connection.readinto(buffer)
        self._waited += time.monotonic() - began
        self._received += size or 0
        if self._waited >= WINDOW:
            if self._received < LEAST_RATE * self._waited:
                raise _TooSlowError
            self._waited = 0.0
            self._received = 0
        return size

    def close(self) -> None:
        self._connection.close()
        super().close()


class _PacedResponse(http.client.HTTPResponse):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fp = io.BufferedReader(_Paced(self.fp.detach()))


class _Connection(http.client.HTTPConnection):
    response_class = _PacedResponse


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _PacedResponse


class _PacedHTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _PacedHTTPS(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        # urllib would read the body of this response into memory, even a huge one.
        fp.close()
        # In plain http, anyone between client and server could replace the data.
        try:
            _check_address(newurl, ("https",) if req.type == "https" else ("http", "https"))
        except FetchError as error:
            raise FetchError(f"{req.full_url} redirects to an address that is not allowed: {error}") from error
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(address, schemes=("http", "https")):
    """Raise FetchError unless `address` is a URL of one of `schemes` that can be downloaded."""
    try:
        url = urlsplit(address)
        valid = url.scheme in schemes and url.hostname and url.hostname.encode("idna") and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise FetchError(f"'{escape(address)}' is not an address that starts with {':// or '.join(schemes)}://")
    if url.username is not None:
        # It would end up in messages.
        raise FetchError(f"the address of {url.hostname} contains a user name, which is not supported")


@contextlib.contextmanager
def _reported_errors(address):
    """Raise the errors of a request and its response as FetchError."""
    try:
        yield
    except _TooSlowError:
        raise FetchError(f"{address}: the server sends fewer than {LEAST_RATE} bytes a second") from None
    except HTTPError as error:
        error.close()
        if error.code // 100 == 3:
            raise FetchError(
                f"{address}: the server redirects in a circle, or to an address that is not allowed"
            ) from error
        kind = NotFoundError if error.code in NOT_FOUND else TransientError if error.code in TRANSIENT else FetchError
        raise kind(f"{address}: the server answered {error.code} {escape(error.reason)}".rstrip()) from error
    except URLError as error:
        # Without a network, retries would only delay the message.
        reason = f"cannot connect to {urlsplit(address).hostname} ({_reason(error.reason)})"
        raise FetchError(f"{reason}; without a network, give a copy of the data with --mirror") from error
    except (OSError, http.client.HTTPException) as error:
        raise TransientError(f"{address}: the download failed ({_reason(error)})") from error
    except ValueError as error:  # of urllib, about the target of a redirect
        raise FetchError(f"{address} redirects to an address that is not allowed") from error


def _reason(error):
    """Return a part of a sentence that says why a request failed."""
    if isinstance(error, TimeoutError):
        return f"no data for {TIMEOUT:g} seconds"
    if isinstance(error, http.client.IncompleteRead):
        return "the end is missing"
    return escape(getattr(error, "strerror", None) or str(error)) or type(error).__name__
