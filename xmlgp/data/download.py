"""Downloading one file over http or https: bounded in size, never stalling, and resumed after an interruption.

The server is not trusted: whatever it sends, however slowly and however much, ends in the file or in one sentence.
"""

import contextlib
import functools
import http.client
import io
import json
import math
import re
import socket
import string
import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from xmlgp import __version__
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent

__all__ = [
    "PATIENCE",
    "Interrupted",
    "NotThere",
    "Patience",
    "check_web_address",
    "download",
    "interrupts",
    "shown",
    "sweep",
]

CHUNK = 1 << 16

#: Answers of a server that may be well again in a moment: timeout, too many requests, its own failures.
TRANSIENT = {408, 429, 500, 502, 503, 504}

#: Ending of the file beside a download that tells its address and state.
LABEL = ".json"

NOT_THERE = {404, 410}
RANGE_NOT_SATISFIABLE = 416

REDIRECTS = {301, 302, 303, 307, 308}
MOST_REDIRECTS = 10

#: Of a host that are tried.
MOST_ADDRESSES = 8

#: A part of a file as a server announces it; of no more digits than any file needs.
CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")

#: What a server may call a state of a file, to be repeated to it.
VALIDATOR = re.compile(r"[ -~]{1,200}")

#: Bytes beside those of the file: the heads of answers, and as many again as the file has around pieces of it.
ENVELOPE = 1 << 20

#: Characters of a server's or a stranger's words that a message repeats.
LONGEST_SHOWN = 200


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
        Seconds after which a connection counts as dead that has not opened, not brought the whole head of an answer, or
        brought less than `stall` · `rate` bytes of a file.
    pauses : tuple of float
        Seconds to wait before each new attempt after a connection broke off.
    rate : float
        Bytes a second.
    """

    stall: float = 30.0
    pauses: tuple[float, ...] = (1.0, 4.0, 15.0)
    rate: float = 1000.0


PATIENCE = Patience()


def shown(text):
    """Return a stranger's words as a message can hold them: printable, so on one line, and not too many.

    Parameters
    ----------
    text : str
    """
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[: LONGEST_SHOWN + 1])
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


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
        raise FetchError(f"{shown(address)!r} is not a web address")
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
    opener = _opener(address, limit, patience)
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
        if not (interrupts(error) and partial.validator):
            partial.discard()
        raise


def interrupts(error):
    """Say whether what has arrived is still good after an error: one of the network, or Ctrl-C and its like.

    After any other it is wrong, too large, or fills the disk.

    Parameters
    ----------
    error : BaseException
    """
    return isinstance(error, Interrupted) or not isinstance(error, Exception)


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


class _Metered(io.RawIOBase):
    """The bytes of a connection: as they come, but neither too slowly nor without end.

    A limit for each wait alone would be none: a server that sends a byte now and then keeps a client for ever.

    Parameters
    ----------
    raw : binary file
        Where they come from, unbuffered.
    sock : socket
        What `raw` reads.
    address : str
        For messages.
    limit : int
        Bytes of the file that there may be.
    patience : Patience
    """

    def __init__(self, raw, sock, address, limit, patience):
        self._raw, self._sock, self._address, self._limit, self._patience = raw, sock, address, limit, patience
        self._left = 2 * limit + ENVELOPE
        self._await(math.inf)

    def await_body(self):
        """Take the head of the answer as complete: from now on bytes must come at the least rate."""
        self._await(self._patience.rate * self._patience.stall)

    def _await(self, count):
        self._wanted, self._came, self._due = count, 0, time.monotonic() + self._patience.stall

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self._due - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            count = self._raw.readinto(buffer)
        except TimeoutError as error:
            raise _Broken(self._complaint()) from error
        self._left -= count
        if self._left < 0:
            raise FetchError(_too_large(self._address, self._limit))
        self._came += count
        if self._came >= self._wanted:
            self._await(self._wanted)
        return count

    def _complaint(self):
        stall = self._patience.stall
        if not self._came:
            return f"no byte came for {stall:g} seconds"
        if self._wanted == math.inf:
            return f"the head of the answer did not come to an end within {stall:g} seconds"
        return f"under {self._patience.rate:g} bytes a second came for {stall:g} seconds"

    def close(self):
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer whose bytes are metered, those of its head as well."""

    def __init__(self, sock, *details, meter, **more):
        super().__init__(sock, *details, **more)
        self._metered = meter(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._metered)

    def begin(self):
        super().begin()
        self._metered.await_body()


def _metered(connection, meter):
    """Return a maker of connections of that class that give an `_Answer`."""

    def connect(host, **options):
        made = connection(host, **options)
        made._create_connection = _connect_to_any
        made.response_class = functools.partial(_Answer, meter=meter)
        return made

    return connect


def _connect_to_any(address, timeout, source_address=None):
    """Connect to one of the first addresses of a host; `socket.create_connection` waits for each of thousands."""
    failure = OSError("the host has no address")
    for *_, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[:MOST_ADDRESSES]:
        try:
            return socket.create_connection(place[:2], timeout, source_address)
        except OSError as error:
            failure = error
    raise failure


class _Http(HTTPHandler):
    def __init__(self, meter):
        super().__init__()
        self._connect = _metered(http.client.HTTPConnection, meter)

    def http_open(self, request):
        return self.do_open(self._connect, request)


class _Https(HTTPSHandler):
    def __init__(self, meter):
        super().__init__()
        self._connect = _metered(http.client.HTTPSConnection, meter)

    def https_open(self, request):
        return self.do_open(self._connect, request)


def _opener(address, limit, patience):
    """Return what opens web addresses and, unlike urllib's own, nothing else: no files, and no redirects by itself."""
    meter = functools.partial(_Metered, address=address, limit=limit, patience=patience)
    opener = OpenerDirector()
    for handler in (ProxyHandler(), _Http(meter), _Https(meter), HTTPErrorProcessor(), HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    return opener


class _Partial:
    """The part of a file that has arrived, and what its server calls this state of the file."""

    def __init__(self, path, address):
        self.path, self.address = Path(path), address
        self._label = _label_of(self.path)
        self.load()

    def load(self):
        """See what there is; it counts only if it is known to belong to this address."""
        self.size, self.validator = 0, None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            label = json.loads(self._label.read_text())
            facts = self.path.lstat()
            # A link could lead to any file, to which the rest would be appended.
            if label["address"] == self.address and VALIDATOR.fullmatch(label["validator"]) and S_ISREG(facts.st_mode):
                self.size, self.validator = facts.st_size, label["validator"]

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
        answer = _open(opener, partial.address, headers, stall)
    except HTTPError as error:
        with error:
            if partial.size and error.headers.get("Content-Range") == f"bytes */{partial.size}":
                return  # nothing is missing
            _refuse(error, partial)
    with answer:
        _receive(answer, partial, limit, progress, stall)


def _open(opener, address, headers, stall):
    """Return the answer to a request, following redirects; raise HTTPError if it is no success."""
    asked = address
    for _ in range(MOST_REDIRECTS + 1):
        try:
            return opener.open(Request(asked, headers=headers), timeout=stall)
        except HTTPError as error:
            location = error.headers.get("Location")
            if error.code not in REDIRECTS or location is None:
                raise
            error.close()
            asked = _redirected(asked, location)
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(_reason(error, stall), unreachable=isinstance(error, URLError)) from error
    raise FetchError(f"{address} redirects more than {MOST_REDIRECTS} times")


def _redirected(address, location):
    """Return the address that a redirect leads to: on the web, and never from https to http."""
    try:
        target = quote(urljoin(address, location), safe=string.punctuation, encoding="iso-8859-1")
        check_web_address(target, ("https",) if urlsplit(address).scheme == "https" else ("http", "https"))
    except (ValueError, FetchError) as error:
        raise FetchError(f"{shown(address)} redirects to {shown(location)}, which is not followed") from error
    return target


def _refuse(error, partial):
    """Raise what an answer that is no success means."""
    if error.code == RANGE_NOT_SATISFIABLE and partial.size:
        partial.discard()
        raise _Broken("the file has changed on the server") from error
    said = f"{error.code} {shown(error.reason)}".rstrip()
    if error.code in TRANSIENT:
        raise _Broken(said) from error
    kind = NotThere if error.code in NOT_THERE else FetchError
    raise kind(f"{partial.address}: the server answered {said}") from error


def _receive(answer, partial, limit, progress, stall):
    """Write the body of `answer` behind what `partial` has."""
    total = answer.length
    if answer.status == http.client.PARTIAL_CONTENT:
        sent = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        same = _validator(answer.headers) in (None, partial.validator)
        if not (partial.size and sent and int(sent[1]) == partial.size and same):
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
    if total is not None and received > total:
        partial.discard()
        raise _Broken(f"{received} bytes came where {total} were announced")


def _read(answer, stall):
    try:
        # Not read(): of a piece that announces -1 bytes, it would take into memory whatever comes.
        return answer.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(_reason(error, stall)) from error


def _validator(headers):
    """Return what identifies this state of the file to the server, or None if it cannot resume."""
    etag = headers.get("ETag", "")
    if headers.get("Accept-Ranges", "").lower() == "none":
        return None
    # A weak ETag promises the same meaning, not the same bytes.
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    return validator if VALIDATOR.fullmatch(validator) else None


def _reason(error, stall):
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no byte came for {stall:g} seconds"
    if isinstance(error, http.client.IncompleteRead):
        return "the end is missing"
    return shown(getattr(cause, "strerror", None) or str(cause).strip()) or type(cause).__name__


def _too_large(address, limit):
    return f"{address} holds more than the {limit} bytes that the catalogue allows"
