"""What clients send: bodies within limits, forms and JSON in UTF-8, and the parameters of suggestions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import anyio
from starlette.requests import ClientDisconnect, Request

from xmlgp.runtime.untrusted_json import count_values
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.problems import Problem, Unavailable

__all__ = ["Bodies", "Parameters", "parsed", "read_form", "read_json", "read_query"]

#: Labels of an answer by default, as for Annif.
LABELS = 10

#: The most labels of an answer if they are chosen by expected F1.
MOST_LABELS = 1000

#: The most labels of an answer if they are explained: more would take gigabytes for a batch.
MOST_EXPLAINED = 100

#: Fields of a form, or of a query.
MOST_FIELDS = 10_000

#: Bytes of a body that takes some milliseconds to read.
LARGE = 1 << 18

#: Values that JSON may have in any case; of more, each must have four bytes.
FEW = 10_000

#: How many bodies of the largest size are in memory at a time.
BODIES = 8

#: The length of a body, as a header has it.
LENGTH = re.compile("[0-9]{1,9}")

Value = TypeVar("Value")


class Parameters(NamedTuple):
    """Which labels a client asks for; requests with equal parameters are scored together.

    `limit` is None if the client sends none.
    """

    limit: int | None = None
    threshold: float = 0.0
    explain: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    assign: bool = False

    @property
    def most(self) -> int:
        """The most labels of a text."""
        if self.limit is not None:
            return self.limit
        if not self.assign:
            return LABELS
        return MOST_EXPLAINED if self.explain else MOST_LABELS

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Parameters:
        """Return the parameters among the values of fields; Problem 400 if they exclude each other."""
        parameters = cls(**{name: value for name, value in fields.items() if name in cls._fields})
        if parameters.assign and parameters.threshold:
            raise Problem(400, "assign and threshold exclude each other")
        if parameters.explain and parameters.most > MOST_EXPLAINED:
            raise Problem(400, f"limit is {parameters.limit}, but with explain it can be at most {MOST_EXPLAINED}")
        return parameters


class Bodies:
    """Reads the bodies of requests: of at most `largest` bytes, within some seconds, and only a few at a time."""

    def __init__(self, largest: int, seconds: float) -> None:
        self._largest = largest
        self._seconds = seconds
        self._bytes = 0

    @contextlib.asynccontextmanager
    async def read(self, request: Request, content_type: str) -> AsyncIterator[bytes]:
        """Yield the body of a request as bytes, which count until the end of the block.

        Problem 415 if it is not of this type, 413 if it is too large, 408 if it comes too slowly, 503 if there are too
        many.
        """
        actual_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if actual_type != content_type:
            reason = f"is {excerpt(actual_type)}" if actual_type else "has no type"
            raise Problem(415, f"the body {reason}; send {content_type}")
        chunks: list[bytes] = []
        try:
            await self._receive(request, chunks)
            yield b"".join(chunks)
        finally:
            self._bytes -= sum(map(len, chunks))

    async def _receive(self, request: Request, chunks: list[bytes]) -> None:
        """Append the parts of a body to a list, and count them."""
        too_large = Problem(413, f"the body has more than {self._largest} bytes", {"Connection": "close"})
        declared = request.headers.get("content-length", "")
        size = 0
        # A client that asks first waits for the answer.
        if LENGTH.fullmatch(declared) and int(declared) > self._largest and "expect" in request.headers:
            raise too_large
        try:
            # A client that does not is still sending: before it is told, what it sends is read and forgotten.
            with anyio.fail_after(self._seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size <= self._largest:
                        if self._bytes + len(chunk) > BODIES * self._largest:
                            raise Unavailable("too many large requests are being read; try again later")
                        self._bytes += len(chunk)
                        chunks.append(chunk)
        except TimeoutError:
            if size <= self._largest:
                detail = f"the request did not arrive within {self._seconds:g} seconds"
                raise Problem(408, detail, {"Connection": "close"}) from None
        except ClientDisconnect:
            raise Problem(400, "the client ended the connection before its request was complete") from None
        if size > self._largest:
            raise too_large


async def parsed(function: Callable[[bytes], Value], body: bytes) -> Value:
    """Return what a function makes of a body; a large one is read beside other requests, on another thread."""
    return await asyncio.to_thread(function, body) if len(body) > LARGE else function(body)


def read_form(body: bytes) -> list[tuple[str, str]]:
    """Return the pairs of name and value in a form (bytes); Problem 400 if it is malformed."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MOST_FIELDS
        )
    except UnicodeDecodeError:
        raise Problem(400, "the form is not UTF-8") from None
    except ValueError:
        raise Problem(400, f"the form has more than {MOST_FIELDS} fields") from None


def read_query(request: Request) -> list[tuple[str, str]]:
    """Return the pairs of name and value in the query of a request; Problem 400 if it is malformed."""
    try:
        # A query that is not ASCII is malformed, but curl sends it.
        return read_form(request.scope["query_string"])
    except Problem as problem:
        raise Problem(400, problem.detail.replace("the form", "the query")) from None


def read_json(body: bytes) -> object:
    """Return the value in JSON (bytes); Problem 400 if it is malformed, or has next to nothing but brackets."""
    # Reading these takes ten times as long as text, and nothing else can be read meanwhile.
    if count_values(body) > max(len(body) // 4, FEW):
        raise Problem(400, "the body has too many values for its size")
    try:
        return json.loads(body.decode(), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise Problem(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Problem(400, "the body is not JSON") from None


def _refuse(constant: str) -> object:
    raise ValueError(constant)
