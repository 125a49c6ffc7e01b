"""Downloading one file over http or https: bounded in size, never stalling, and resumed after an interruption."""

import contextlib
import http.client
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from xmlgp import __version__
from xmlgp.errors import FetchError
from xmlgp.progress import silent

__all__ = ["PATIENCE", "Interrupted", "NotThere", "Patience", "check_web_address", "download", "sweep"]

CHUNK = 1 << 16

#: Answers of a server that may be well again in a moment: timeout, too many requests, its own failures.
TRANSIENT = {408, 429, 500, 502, 503, 504}

#: Ending of the file beside a download that tells its address and state.
LABEL = ".json"

NOT_THERE = {404, 410}
RANGE_NOT_SATISFIABLE = 416


class Interrupted(FetchError):
    """The network failed; what has arrived is kept where the server can resume."""


class NotThere(FetchError):
    """The server does not have the file."""


@dataclass(frozen=True)
class Patience:
    """How long a download waits.

    Parameters
    ----------
    stall : float
        Seconds without a byte after which a connection counts as dead.
    pauses : tuple of float
        Seconds to wait before each new attempt after a connection broke off.
    """

    stall: float = 30.0
    pauses: tuple[float, ...] = (1.0, 4.0, 15.0)


PATIENCE = Patience()


def check_web_address(address, schemes=("http", "https")):
    """Raise FetchError unless `address` is one that can be asked for a file.

    Parameters
    ----------
    address : str
        A URL.
    schemes : tuple of str
        Those allowed.
    """
    try:
        parts = urlsplit(address)
        parts.hostname.encode("idna")
        well_formed = parts.scheme in schemes and parts.port != 0 and re.fullmatch(r"[!-~]+", address)
    except (AttributeError, ValueError):  # no host; a port that is none; a host that cannot be one
        well_formed = False
    if not well_formed:
        raise FetchError(f"{address!r} is not a web address")
    if parts.username is not None:
        raise FetchError(f"the address of {parts.hostname} holds a user name, which is not supported")


def download(address, path, limit, progress=silent, patience=PATIENCE):
    """Download `address` to `path`, going on where an earlier call was interrupted.

    The server's ETag or Last-Modified is kept in a file beside `path`, so that only the rest of the very same content
    is asked for. A server that tells neither starts anew each time.

    Parameters
    ----------
    address : str
        An http or https URL.
    path : Path
        Where it goes. The folder is made.
    limit : int
        Bytes that it must not exceed, whatever the server says.
    progress : callable
        Told of bytes.
    patience : Patience
        How long to wait.

    Raises
    ------
    Interrupted
        If the network failed for good. Only then does anything remain at `path`, if it can be resumed.
    NotThere, FetchError
        If the server does not have it, or answers with something else.
    """
    check_web_address(address)
    partial = _Partial(path, address)
    before = partial.size
    opener = build_opener(_WebRedirects)
    try:
        for pause in (*patience.pauses, None):
            try:
                return _attempt(opener, partial, limit, progress, patience.stall)
            except _Broken as broken:
                partial.load()
                # A server out of reach from the start is likely to stay so; one that has sent something is not.
                if pause is None or (broken.unreachable and partial.size == before):
                    raise Interrupted(broken.sentence(address, partial)) from broken
            time.sleep(pause)
    except BaseException as error:
        # Ctrl-C interrupts, too. After anything else the part is wrong, too large, or fills the disk.
        if not isinstance(error, Interrupted | KeyboardInterrupt) or not partial.validator:
            partial.discard()
        raise


def sweep(folder):
    """Remove what was downloaded into `folder` and cannot be resumed; remove the folder if that was all."""
    for path in folder.glob("*"):
        if path.suffix != LABEL and not _label_of(path).exists():
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _label_of(path):
    return path.with_name(path.name + LABEL)


class _Broken(Exception):
    """A connection failed in a way that may pass."""

    def __init__(self, reason, unreachable=False):
        super().__init__(reason)
        self.reason, self.unreachable = reason, unreachable

    def sentence(self, address, partial):
        if self.unreachable:
            host = urlsplit(address).hostname
            return f"no connection to {host} ({self.reason}); without a network, give a copy of the data with --mirror"
        kept = f"; {partial.size} bytes are kept, the next call goes on from there" if partial.validator else ""
        return f"{address}: the download broke off ({self.reason}){kept}"


class _WebRedirects(HTTPRedirectHandler):
    """Follows redirects to http and https only, and never from https to http."""

    def redirect_request(self, request, answer, code, reason, headers, address):
        """Return the request to follow with."""
        old, new = urlsplit(request.full_url).scheme, urlsplit(address).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise HTTPError(request.full_url, code, reason, headers, answer)
        return super().redirect_request(request, answer, code, reason, headers, address)


class _Partial:
    """The part of a file that has arrived, and what its server calls this state of the file."""

    def __init__(self, path, address):
        self.path, self.address = Path(path), address
        self._label = _label_of(self.path)
        self.load()

    def load(self):
        """See what there is; it counts only if it is known to belong to this address."""
        self.size, self.validator = 0, None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            label = json.loads(self._label.read_text())
            if label["address"] == self.address:
                self.size, self.validator = self.path.stat().st_size, label["validator"]

    def begin(self, validator):
        """Start with no bytes of the state called `validator` (None: the server cannot resume)."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.discard()
        if validator:
            self._label.write_text(json.dumps({"address": self.address, "validator": validator}))
        self.path.touch()
        self.load()

    def discard(self):
        """Forget the part."""
        for path in (self.path, self._label):
            path.unlink(missing_ok=True)
        self.size, self.validator = 0, None


def _attempt(opener, partial, limit, progress, stall):
    """Ask for what is missing of `partial` and receive it; raise _Broken if the connection fails."""
    headers = {"User-Agent": f"xmlgp/{__version__}"}
    if partial.size:
        headers |= {"Range": f"bytes={partial.size}-", "If-Range": partial.validator}
    try:
        answer = opener.open(Request(partial.address, headers=headers), timeout=stall)
    except HTTPError as error:
        with error:
            if partial.size and error.headers.get("Content-Range") == f"bytes */{partial.size}":
                return  # nothing is missing
            _refuse(error, partial)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(_reason(error, stall), unreachable=isinstance(error, URLError)) from error
    with answer:
        _receive(answer, partial, limit, progress, stall)


def _refuse(error, partial):
    """Raise what an answer that is no success means."""
    if error.code == RANGE_NOT_SATISFIABLE and partial.size:
        partial.discard()
        raise _Broken("the file has changed on the server") from error
    if error.code in TRANSIENT:
        raise _Broken(f"{error.code} {error.reason}") from error
    if 300 <= error.code < 400:
        target = urljoin(partial.address, error.headers.get("Location", ""))
        raise FetchError(f"{partial.address} redirects to {target}, which is not followed") from error
    kind = NotThere if error.code in NOT_THERE else FetchError
    raise kind(f"{partial.address}: the server answered {error.code} {error.reason}") from error


def _receive(answer, partial, limit, progress, stall):
    """Write the body of `answer` behind what `partial` has."""
    total = answer.length
    if answer.status == http.client.PARTIAL_CONTENT:
        sent = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", ""))
        if not sent or int(sent[1]) != partial.size:
            partial.discard()
            raise _Broken("the server sent another part of the file than asked for")
        total = int(sent[2])
    else:
        partial.begin(_validator(answer.headers))
    received = partial.size
    if total is not None and total > limit:
        raise FetchError(_too_large(partial.address, limit))
    with progress(partial.path.name, total=total, unit="B") as bar, open(partial.path, "ab") as file:
        bar.update(received)
        while chunk := _read(answer, stall):
            received += len(chunk)
            if received > limit:
                raise FetchError(_too_large(partial.address, limit))
            file.write(chunk)
            bar.update(len(chunk))
    if total is not None and received < total:
        raise _Broken(f"{received} of {total} bytes had arrived")


def _read(answer, stall):
    try:
        return answer.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(_reason(error, stall)) from error


def _validator(headers):
    """Return what identifies this state of the file to the server, or None if it cannot resume."""
    etag = headers.get("ETag", "")
    if headers.get("Accept-Ranges", "").lower() == "none":
        return None
    # A weak ETag promises the same meaning, not the same bytes.
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _reason(error, stall):
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no byte came for {stall:g} seconds"
    if isinstance(error, http.client.IncompleteRead):
        return "the end is missing"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _too_large(address, limit):
    return f"{address} holds more than the {limit} bytes that the catalogue allows"
