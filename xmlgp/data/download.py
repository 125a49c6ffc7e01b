"""Download one file over HTTP by pooch: within a size, with retries, and with errors of one sentence."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urljoin

import pooch
import requests

from xmlgp.errors import FetchError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.untrusted_text import escape
from xmlgp.version import __version__

__all__ = ["NotFoundError", "download"]

HEADERS = {"User-Agent": f"xmlgp/{__version__}"}
#: Seconds to wait for a connection, and for each piece of the response.
TIMEOUT = 30.0
#: Retries after a failure that may be transient; pooch waits one second before the first, two before the second.
RETRIES = 3
CHUNK = 1 << 16
#: Statuses of the client's side after which a retry may help: timeout, too many requests.
TRANSIENT = (408, 429)

# pooch logs each download and each retry.
pooch.get_logger().setLevel(logging.WARNING)


class NotFoundError(FetchError):
    """The server does not have the file."""


def download(address: str, path: Path, limit: int, progress: Progress = silent) -> None:
    """Download a file of at most `limit` bytes, which appears when it is complete.

    NotFoundError is raised if the server does not have the file, FetchError for other failures.
    """

    def write(url: str, output: str, _: pooch.Pooch) -> None:
        with (
            requests.get(url, stream=True, timeout=TIMEOUT, headers=HEADERS, hooks={"response": _check}) as response,
            open(output, "wb") as file,
            progress(path.name, total=int(response.headers.get("Content-Length", 0)) or None, unit="B") as bar,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
                if file.tell() > limit:
                    raise FetchError(f"{url} is larger than the {limit} bytes that the catalogue allows")

    files = pooch.create(
        path.parent, "", registry={path.name: None}, urls={path.name: address}, retry_if_failed=RETRIES
    )
    try:
        files.fetch(path.name, downloader=write)
    except (requests.RequestException, ValueError) as error:
        cause: BaseException = error
        while cause.__context__:
            cause = cause.__context__
        reason = escape(str(cause)) or type(cause).__name__
        raise FetchError(f"{escape(address)}: the download failed ({reason})") from error


def _check(response: requests.Response, **options: object) -> None:
    """Raise FetchError for a status that no retry would change, and for a redirect to an insecure address.

    requests calls this function before it reads the body of a redirect, which may be endless, into memory.
    """
    code = response.status_code
    if response.is_redirect:
        response.close()
        target = urljoin(response.url, response.headers["Location"])
        # In plain http, anyone between client and server could replace the data.
        if not target.startswith(("https://", response.url.partition("//")[0])):
            raise FetchError(f"{response.url} redirects to {escape(target)}, which is not allowed")
    elif 400 <= code < 500 and code not in TRANSIENT:
        kind = NotFoundError if code == 404 else FetchError
        raise kind(f"{response.url}: the server answered {code} {escape(response.reason)}")
