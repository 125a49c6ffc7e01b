"""Download one file over HTTP and resume it after an interruption.

The server is untrusted: it cannot fill the disk or the memory, redirect to another protocol, or have a truncated file
accepted. urllib3 makes the connections.
"""

import http.client
import time
import urllib.request
from urllib.parse import unquote, urljoin

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError, TimeoutError
from urllib3.util import make_headers, parse_url

from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape
from xmlgp.version import __version__

__all__ = ["NetworkError", "NotFoundError", "check_web_address", "download"]

#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0
#: Seconds to wait before each retry after a transient failure.
RETRY_DELAYS = (1.0, 4.0, 15.0)
MAX_REDIRECTS = 10
CHUNK = 1 << 16

NOT_FOUND = {404, 410}
#: Statuses after which a retry may help: timeout, too many requests, server failures.
TRANSIENT = {408, 429, 500, 502, 503, 504}
#: Errors before a request reaches the server.
CONNECTION_ERRORS = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError)


class NetworkError(FetchError):
    """The network failed; a later download may resume."""


class NotFoundError(FetchError):
    """The server does not have the file."""


def check_web_address(address, schemes=("http", "https")):
    """Raise FetchError unless `address` is a URL of one of `schemes` that can be downloaded."""
    try:
        url = parse_url(address)
        valid = url.scheme in schemes and url.host and url.host.encode("idna")
    except ValueError:
        valid = False
    if not valid:
        raise FetchError(f"'{escape(address)}' is not a web address")
    if url.auth is not None:
        # It would end up in messages.
        raise FetchError(f"the address of {url.host} contains a user name, which is not supported")


def download(address, path, limit, progress=silent):
    """Download a file of at most `limit` bytes, or its rest after an interrupted call; an existing file is complete.

    The bytes received so far are in PATH.part, and the ETag or Last-Modified header of the response in PATH.validator,
    so that only the rest of the same content is requested. If the server sends neither, a download cannot be resumed.
    NetworkError is raised if the network fails and retries do not help, NotFoundError if the server does not have the
    file, FetchError if the response is anything else than the file, or is too large.
    """
    check_web_address(address)
    if path.exists():
        return
    part, validator = (path.with_name(path.name + suffix) for suffix in (".part", ".validator"))
    try:
        for number, delay in enumerate((*RETRY_DELAYS, None)):
            try:
                _download_rest(address, part, validator, limit, progress)
                break
            except HTTPError as error:
                # Without a network, retries would only delay the message.
                if number == 0 and isinstance(error, CONNECTION_ERRORS):
                    reason = f"cannot connect to {parse_url(address).host} ({_reason(error)})"
                    advice = "without a network, give a copy of the data with --mirror"
                    raise NetworkError(f"{reason}; {advice}") from error
                if delay is None:
                    size = _resumable_size(part, validator)
                    kept = f"; {size} bytes are kept and the next call resumes from there" if size else ""
                    raise NetworkError(f"{address}: the download failed ({_reason(error)}){kept}") from error
            time.sleep(delay)
        part.replace(path)
        validator.unlink(missing_ok=True)
    finally:
        if not _resumable_size(part, validator):
            part.unlink(missing_ok=True)
            validator.unlink(missing_ok=True)


def _resumable_size(part, validator):
    """Return the number of bytes that a download need not request again."""
    return part.stat().st_size if part.exists() and validator.exists() else 0


def _download_rest(address, part, validator, limit, progress):
    """Request the missing bytes and append them; raise HTTPError if a retry may help."""
    size = _resumable_size(part, validator)
    headers = {"User-Agent": f"xmlgp/{__version__}", "Accept-Encoding": "identity"}
    if size:
        headers |= {"Range": f"bytes={size}-", "If-Range": validator.read_text()}
    with _request(address, headers) as response:
        status = f"{response.status} {escape(response.reason or '')}".rstrip()
        if response.status in TRANSIENT:
            raise HTTPError(status)
        if response.status not in (200, 206):
            error = NotFoundError if response.status in NOT_FOUND else FetchError
            raise error(f"{address}: the server answered {status}")
        if response.status == 200:
            size = 0
            # It must never stand beside the bytes of another content.
            validator.unlink(missing_ok=True)
        total = None if response.length_remaining is None else size + response.length_remaining
        with progress(part.stem, total=total, unit="B") as bar, open(part, "ab" if size else "wb") as file:
            # A weak ETag promises the same meaning, not the same bytes.
            tag = response.headers.get("ETag", "W/")
            known = response.headers.get("Last-Modified") if tag.startswith("W/") else tag
            if known:
                validator.write_text(known)
            bar.update(size)
            # Unlike read() and stream(), read1() keeps to this size for a chunk whose declared size is -1.
            while chunk := response.read1(CHUNK, decode_content=False):
                size += len(chunk)
                if size > limit:
                    raise FetchError(f"{address} is larger than the {limit} bytes that the catalogue allows")
                file.write(chunk)
                bar.update(len(chunk))


def _request(address, headers):
    """Return the response to a GET request after all redirects, with its body unread."""
    url = address
    for _ in range(MAX_REDIRECTS + 1):
        # urllib3's own redirects and retries read the body of the previous response into memory, even a huge one, and
        # lead from https to http, where anyone between client and server could replace the data.
        response = _pool(url).request(
            "GET", url, headers=headers, timeout=TIMEOUT, redirect=False, retries=False, preload_content=False
        )
        location = response.get_redirect_location()
        if not location:
            return response
        response.close()
        try:
            target = urljoin(url, location)
            check_web_address(target, ("https",) if url.startswith("https:") else ("http", "https"))
        except (ValueError, FetchError) as error:
            raise FetchError(f"{escape(url)} redirects to {escape(location)}, which is not allowed") from error
        url = target
    raise FetchError(f"{address} redirects more than {MAX_REDIRECTS} times")


def _pool(url):
    """Return connections to the host of `url`, through the proxy that the environment sets for it."""
    parts = parse_url(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    auth = parse_url(proxy).auth
    return urllib3.ProxyManager(proxy, proxy_headers=make_headers(proxy_basic_auth=unquote(auth)) if auth else None)


def _reason(error):
    """Return a part of a sentence that says why a request failed."""
    # NewConnectionError, a refused connection, is a subclass of TimeoutError.
    if isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError):
        return f"no data for {TIMEOUT:g} seconds"
    cause = next((detail for detail in error.args if isinstance(detail, Exception)), error.__cause__ or error)
    if isinstance(cause, http.client.IncompleteRead):
        return "the end is missing"
    return escape(getattr(cause, "strerror", None) or str(cause)) or type(cause).__name__
