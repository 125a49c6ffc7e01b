"""What a client is told if its request fails: problem details (RFC 9457), with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse

__all__ = ["FAILED", "Problem", "Unavailable", "problem_response", "refusal"]

#: What a client is told of a mistake in the program.
FAILED = "the server failed; its log has the details"


class Problem(Exception):
    """A request that fails with this HTTP status; `detail` is one sentence for whoever reads the answer."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


class Unavailable(Problem):
    """A request that can be sent again later, after some seconds."""

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(503, detail, {"Retry-After": str(seconds)})


def problem_response(problem: Problem) -> JSONResponse:
    """Return the response for a `Problem`."""
    status = HTTPStatus(problem.status)
    content = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": problem.detail}
    return JSONResponse(content, status, problem.headers, "application/problem+json")


def refusal(status: int, detail: str) -> bytes:
    """Return an answer to a request that the application does not get; the connection ends after it."""
    response = problem_response(Problem(status, detail, {"Connection": "close"}))
    lines = [b"%s: %s" % header for header in response.raw_headers]
    return b"\r\n".join([f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *lines, b"", response.body])
