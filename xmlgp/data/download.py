"""Download one file over HTTP and resume it after an interruption.

The server is untrusted: it cannot fill the disk or the memory, redirect to another protocol, or have a truncated file
accepted. urllib3 makes the connections.
"""

import contextlib
import http.client
import json
import re
import time
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urljoin

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NewConnectionError,
    ProxyError,
    SSLError,
    TimeoutError,
)
from urllib3.util import make_headers, parse_url

from xmlgp import __version__
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["NetworkError", "NotFoundError", "check_web_address", "download", "remove_unresumable"]

#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0

#: Seconds to wait before each retry after a transient failure.
RETRY_DELAYS = (1.0, 4.0, 15.0)

MAX_REDIRECTS = 10

CHUNK = 1 << 16

NOT_FOUND = {404, 410}
RANGE_NOT_SATISFIABLE = 416

#: Transient errors: timeout, too many requests, server failures.
TRANSIENT = {408, 429, 500, 502, 503, 504}

#: `bytes START-END/TOTAL`. Python refuses to convert a number of thousands of digits, hence the limit.
CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})")

#: Errors before a request reaches the server.
CONNECTION_ERRORS = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError)

#: Suffix of the file beside a partial download that stores its address and validator.
STATE_SUFFIX = ".json"


class NetworkError(FetchError):
    """The network failed; a later download may resume."""


class NotFoundError(FetchError):
    """The server does not have the file."""


def check_web_address(address, schemes=("http", "https")):
    """Raise FetchError unless `address` is a URL that can be downloaded.

    Parameters
    ----------
    address : str
        A URL.
    schemes : tuple of str
        The schemes allowed.
    """
    try:
        url = parse_url(address)
        valid = url.scheme in schemes and url.host
    except LocationValueError:
        valid = False
    if not valid:
        raise FetchError(f"'{escape(address)}' is not a web address")
    if url.auth is not None:
        # It would end up in messages and in the state of the partial download.
        raise FetchError(f"the address of {url.host} contains a user name, which is not supported")


def download(address, path, limit, progress=silent):
    """Download a file, or the rest of it if an earlier call was interrupted.

    The ETag or Last-Modified header of the response is stored beside `path`, so that only the rest of the same content
    is requested. If the server sends neither, a download cannot be resumed and starts from the beginning.

    Parameters
    ----------
    address : str
        An http or https URL.
    path : Path
        The file to write. Its folder is created.
    limit : int
        Maximum size in bytes.
    progress : callable
        Reports bytes; see `xmlgp.runtime.progress`.

    Raises
    ------
    NetworkError
        If the network failed and retries did not help. A partial file remains at `path` if it can be resumed.
    NotFoundError
        If the server does not have the file.
    FetchError
        If the response is anything other than the file, or is too large.
    """
    check_web_address(address)
    partial = _PartialFile(path, address)
    initial_size = partial.size
    try:
        for delay in (*RETRY_DELAYS, None):
            try:
                return _download_rest(partial, limit, progress)
            except _TransientError as error:
                partial.load()
                # Without a network, retries would only delay the message.
                no_network = error.no_connection and partial.size == initial_size
                if delay is None or no_network:
                    raise NetworkError(error.message(partial)) from error
            time.sleep(delay)
    except BaseException as error:
        # After any other error the content is wrong or too large, or the disk is full.
        interrupted = isinstance(error, NetworkError) or not isinstance(error, Exception)
        if not (interrupted and partial.validator):
            partial.remove()
        raise


def remove_unresumable(folder):
    """Remove the files in `folder` that a download cannot resume, and the folder if it is then empty.

    Parameters
    ----------
    folder : Path
        A folder that only `download` writes to.
    """
    for path in folder.glob("*"):
        if path.suffix != STATE_SUFFIX and not _state_path(path).exists():
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


class _TransientError(Exception):
    """A failure that a retry may solve.

    Parameters
    ----------
    reason : str
        A part of a sentence.
    no_connection : bool
        Whether it occurred before the request reached the server.
    """

    def __init__(self, reason, no_connection=False):
        super().__init__(reason)
        self.reason, self.no_connection = reason, no_connection

    def message(self, partial):
        if self.no_connection:
            host = parse_url(partial.address).host
            return f"cannot connect to {host} ({self.reason}); without a network, give a copy of the data with --mirror"
        kept = f"; {partial.size} bytes are kept and the next call resumes from there" if partial.validator else ""
        return f"{partial.address}: the download failed ({self.reason}){kept}"


def _state_path(path):
    return path.with_name(path.name + STATE_SUFFIX)


class _PartialFile:
    """The bytes downloaded so far, and the validator of the content that they belong to.

    Parameters
    ----------
    path : Path
    address : str

    Attributes
    ----------
    size : int
        Number of bytes that can be resumed from.
    validator : str or None
        The server's ETag or Last-Modified header; None if there is nothing to resume.
    """

    def __init__(self, path, address):
        self.path, self.address = Path(path), address
        self._state = _state_path(self.path)
        self.load()

    def load(self):
        """Read size and validator from disk; a file from another address is ignored."""
        self.size, self.validator = 0, None
        # A process that was killed may have left half of the state.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state = json.loads(self._state.read_text())
            if state["address"] == self.address:
                self.size, self.validator = self.path.stat().st_size, state["validator"]

    def restart(self, validator):
        """Replace the file with an empty one whose content is identified by `validator`, or None."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.remove()
        if validator:
            self._state.write_text(json.dumps({"address": self.address, "validator": validator}))
        self.path.touch()
        self.load()

    def remove(self):
        """Remove the file and its state."""
        for path in (self.path, self._state):
            path.unlink(missing_ok=True)
        self.size, self.validator = 0, None


def _download_rest(partial, limit, progress):
    """Request the missing bytes of `partial` and append them; raise _TransientError if the network fails."""
    headers = {"User-Agent": f"xmlgp/{__version__}", "Accept-Encoding": "identity"}
    if partial.size:
        headers |= {"Range": f"bytes={partial.size}-", "If-Range": partial.validator}
    try:
        with contextlib.closing(_request(partial.address, headers)) as response:
            if partial.size and response.headers.get("Content-Range") == f"bytes */{partial.size}":
                return  # the earlier call received all bytes
            total = _start_body(response, partial)
            _append_body(response, partial, total, limit, progress)
    except LocationValueError as error:
        raise FetchError(f"{partial.address}: no server can have this name: {escape(str(error))}") from error
    except HTTPError as error:
        raise _TransientError(_reason(error), isinstance(error, CONNECTION_ERRORS)) from error


def _request(address, headers):
    """Return the response to a GET request after all redirects, with its body unread."""
    url = address
    for _ in range(MAX_REDIRECTS + 1):
        # urllib3's own redirects and retries read the body of the previous response into memory, even a huge one.
        response = _pool(url).request(
            "GET",
            url,
            headers=headers,
            timeout=TIMEOUT,
            redirect=False,
            retries=False,
            preload_content=False,
            enforce_content_length=False,  # _append_body does, and says how much is missing
        )
        location = response.get_redirect_location()
        if not location:
            return response
        response.close()
        url = _redirect(url, location)
    raise FetchError(f"{address} redirects more than {MAX_REDIRECTS} times")


def _redirect(url, location):
    """Return the address that a redirect leads to: never a local file, and never from https to http."""
    try:
        target = urljoin(url, location)
        # Over http, anyone between client and server could replace the data.
        check_web_address(target, ("https",) if url.startswith("https:") else ("http", "https"))
    except (ValueError, FetchError) as error:
        raise FetchError(f"{escape(url)} redirects to {escape(location)}, which is not allowed") from error
    return target


def _pool(url):
    """Return connections to the host of `url`, through the proxy that the environment sets for it."""
    parts = parse_url(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    auth = parse_url(proxy).auth
    return urllib3.ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=unquote(auth)) if auth else None)


def _start_body(response, partial):
    """Make `partial` ready for the body of a response and return the size of the whole file, None if unknown.

    Raises
    ------
    _TransientError, NotFoundError, FetchError
        If the response is not the file.
    """
    if response.status == 200:
        partial.restart(_validator(response.headers))
        return response.length_remaining
    if response.status == 206:
        content_range = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        same = _validator(response.headers) in (None, partial.validator)
        if partial.size and content_range and int(content_range[1]) == partial.size and same:
            return int(content_range[2])
        partial.remove()
        raise _TransientError("the server sent a different part of the file than requested")
    if response.status == RANGE_NOT_SATISFIABLE and partial.size:
        partial.remove()
        raise _TransientError("the file has changed on the server")
    status = f"{response.status} {escape(response.reason or '')}".rstrip()
    if response.status in TRANSIENT:
        raise _TransientError(status)
    error = NotFoundError if response.status in NOT_FOUND else FetchError
    raise error(f"{partial.address}: the server answered {status}")


def _append_body(response, partial, total, limit, progress):
    """Append the body of `response` to `partial`, which then has `total` bytes."""
    too_large = FetchError(f"{partial.address} is larger than the {limit} bytes that the catalogue allows")
    if total is not None and total > limit:
        raise too_large
    received = partial.size
    with progress(partial.path.name, total=total, unit="B") as bar, open(partial.path, "ab") as file:
        bar.update(received)
        # Unlike read() and stream(), read1() keeps to this size for a chunk whose declared size is -1.
        while chunk := response.read1(CHUNK, decode_content=False):
            received += len(chunk)
            if received > limit:
                raise too_large
            file.write(chunk)
            bar.update(len(chunk))
    if total is not None and received > total:
        partial.remove()
    if total is not None and received != total:
        raise _TransientError(f"received {received} of {total} bytes")


def _validator(headers):
    """Return the validator of the content, for an If-Range header, or None if the server cannot resume."""
    if headers.get("Accept-Ranges", "").lower() == "none":
        return None
    etag = headers.get("ETag", "")
    # A weak ETag promises the same meaning, not the same bytes.
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _reason(error):
    """Return a part of a sentence that says why a request failed."""
    # NewConnectionError, a refused connection, is a subclass of TimeoutError.
    if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
        return f"no data for {TIMEOUT:g} seconds"
    cause = next((detail for detail in error.args if isinstance(detail, Exception)), error.__cause__ or error)
    if isinstance(cause, http.client.IncompleteRead):
        return "the end is missing"
    return escape(getattr(cause, "strerror", None) or str(cause)) or type(cause).__name__
