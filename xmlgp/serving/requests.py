"""What clients send: bodies within limits, forms and JSON in UTF-8, and the parameters of suggestions."""

import asyncio
import contextlib
import json
import re
from typing import NamedTuple
from urllib.parse import parse_qsl

import anyio
from starlette.requests import ClientDisconnect

from xmlgp.runtime.untrusted_json import count_values
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.problems import Problem, Unavailable

__all__ = ["FORM", "JSON", "Bodies", "Parameters", "parsed", "read_form", "read_json", "read_query", "text_of"]

#: Labels that an answer has at most, those if they are explained, and words for and against each of these: more would
#: take gigabytes for a batch.
MOST_LABELS = 1000
MOST_EXPLAINED = 100
MOST_WORDS = 20

#: Labels of an answer by default, as for Annif.
LABELS = 10

#: Fields of a form, or of a query.
MOST_FIELDS = 10_000

#: Bytes of a body that takes some milliseconds to read.
LARGE = 1 << 18

#: Values that JSON may have in any case; of more, each must have four bytes.
FEW = 10_000

#: How many bodies of the largest size are in memory at a time.
BODIES = 8

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

WHOLE = re.compile("[0-9]{1,9}")
DECIMAL = re.compile(r"[0-9]{0,9}\.?[0-9]{0,30}(e-?[0-9]{1,2})?", re.IGNORECASE)


class Parameters(NamedTuple):
    """Which labels a client asks for; requests with equal parameters are scored together.

    `limit` is None if the client gave none.
    """

    limit: int | None = None
    threshold: float = 0.0
    explain: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    assign: bool = False

    @property
    def most(self):
        """The most labels of a text."""
        if self.limit is not None:
            return self.limit
        if not self.assign:
            return LABELS
        return MOST_EXPLAINED if self.explain else MOST_LABELS

    @classmethod
    def of(cls, fields):
        """Return those in pairs of name and value; other names have no effect, as for Annif."""
        given = {}
        for name, value in fields:
            if name in cls._fields:
                given.setdefault(name, []).append(value)
        labels = {name: tuple(given.pop(name)) for name in ("only", "without") if name in given}
        for name, values in given.items():
            if len(values) > 1:
                raise Problem(400, f"{name} is given {len(values)} times")
        single = {name: READERS[name](name, values[0]) for name, values in given.items()}
        if single.get("assign") and single.get("threshold"):
            raise Problem(400, "assign and threshold exclude each other")
        if single.get("explain") and single.get("limit", 0) > MOST_EXPLAINED:
            raise Problem(400, f"limit is {single['limit']}, but with explain it can be at most {MOST_EXPLAINED}")
        return cls(**single, **labels)


def _whole(most):
    def read(name, value):
        if not WHOLE.fullmatch(value) or int(value) > most:
            raise Problem(400, f"{name} is {excerpt(value)}, not a whole number from 0 to {most}")
        return int(value)

    return read


def _probability(name, value):
    number = float(value) if re.search("[0-9]", value) and DECIMAL.fullmatch(value) else 2
    if not 0 <= number <= 1:
        raise Problem(400, f"{name} is {excerpt(value)}, not a number from 0 to 1")
    return number


def _truth(name, value):
    if value.lower() not in ("true", "false"):
        raise Problem(400, f"{name} is {excerpt(value)}, neither true nor false")
    return value.lower() == "true"


READERS = {"limit": _whole(MOST_LABELS), "threshold": _probability, "explain": _whole(MOST_WORDS), "assign": _truth}


class Bodies:
    """Reads the bodies of requests: of at most `largest` bytes, within some seconds, and only a few at a time."""

    def __init__(self, largest, seconds):
        self._largest = largest
        self._seconds = seconds
        self._held = 0

    @contextlib.asynccontextmanager
    async def read(self, request, content_type):
        """Yield the body of a request as bytes, which count until the end of the block.

        Problem 415 if it is not of this type, 413 if it is too large, 408 if it comes too slowly, 503 if there are too
        many.
        """
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != content_type:
            found = f"is {excerpt(given)}" if given else "has no type"
            raise Problem(415, f"the body {found}; send {content_type}")
        chunks = []
        try:
            await self._receive(request, chunks)
            yield b"".join(chunks)
        finally:
            self._held -= sum(map(len, chunks))

    async def _receive(self, request, chunks):
        """Append the parts of a body to a list, and count them."""
        too_large = Problem(413, f"the body has more than {self._largest} bytes", {"Connection": "close"})
        declared = request.headers.get("content-length", "")
        size = 0
        # A client that asks first waits for the answer.
        if WHOLE.fullmatch(declared) and int(declared) > self._largest and "expect" in request.headers:
            raise too_large
        try:
            # A client that does not is still sending: before it is told, what it sends is read and forgotten.
            with anyio.fail_after(self._seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size <= self._largest:
                        if self._held + len(chunk) > BODIES * self._largest:
                            raise Unavailable("too many large requests are being read; try again later")
                        self._held += len(chunk)
                        chunks.append(chunk)
        except TimeoutError:
            if size <= self._largest:
                detail = f"the request did not arrive within {self._seconds:g} seconds"
                raise Problem(408, detail, {"Connection": "close"}) from None
        except ClientDisconnect:
            raise Problem(400, "the client ended the connection before its request was complete") from None
        if size > self._largest:
            raise too_large


async def parsed(function, body):
    """Return what a function makes of a body; a large one is read beside other requests, on another thread."""
    return await asyncio.to_thread(function, body) if len(body) > LARGE else function(body)


def read_form(body):
    """Return the pairs of name and value in a form (bytes); Problem 400 if it is malformed."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MOST_FIELDS
        )
    except UnicodeDecodeError:
        raise Problem(400, "the form is not UTF-8") from None
    except ValueError:
        raise Problem(400, f"the form has more than {MOST_FIELDS} fields") from None


def read_query(request):
    """Return the pairs of name and value in the query of a request; Problem 400 if it is malformed."""
    try:
        # A query that is not ASCII is malformed, but curl sends it.
        return read_form(request.scope["query_string"])
    except Problem as problem:
        raise Problem(400, problem.detail.replace("the form", "the query")) from None


def read_json(body):
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


def _refuse(constant):
    raise ValueError(constant)


def text_of(found, name, of):
    """Return the text in a field of an object from JSON; Problem 400, which names the object, if it has none."""
    if not isinstance(found, dict):
        raise Problem(400, f"{of} is not an object")
    text = found.get(name)
    if not isinstance(text, str):
        raise Problem(400, f"{of} has no {name}" if text is None else f"{name} of {of} is not text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem(400, f"{name} of {of} has half of a surrogate pair") from None
    return text
