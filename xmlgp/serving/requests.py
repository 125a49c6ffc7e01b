"""What clients send: bodies within limits, forms and JSON in UTF-8, and the parameters of suggestions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["FORM", "JSON", "Parameters", "parameters_of", "read_body", "read_documents", "read_fields", "read_learned"]

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

#: The most documents of a batch, as for Annif.
MOST_DOCUMENTS = 32

#: The most fields of a form or a query.
MOST_FIELDS = 1000

#: Labels of an answer: by default, as for Annif; at most; and at most if they are explained.
LABELS = 10
MOST_LABELS = 1000
MOST_EXPLAINED = 100

#: The most words that speak for a label.
MOST_WORDS = 20


class Parameters(NamedTuple):
    """Which labels a client asks for: at most `limit`, with at least the probability `threshold`."""

    limit: int = LABELS
    threshold: float = 0.0
    explain: int = 0
    assign: bool = False


async def read_body(request: Request, content_type: str, largest: int) -> bytes:
    """Return the body of a request; the rest of one that is too large is not kept.

    Status 415 if it is compressed or not of this type, 413 if it is too large.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise HTTPException(415, f"the body is compressed by {excerpt(encoding)}; send it as it is")
    actual_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if actual_type != content_type:
        reason = f"is {excerpt(actual_type)}" if actual_type else "has no type"
        raise HTTPException(415, f"the body {reason}; send {content_type}")
    too_large = HTTPException(413, f"the body has more than {largest} bytes")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > largest:
                raise too_large
    except ClientDisconnect:
        raise HTTPException(400, "the client ended the connection before its request was complete") from None
    return bytes(body)


def read_fields(content: bytes, name: str) -> list[tuple[str, str]]:
    """Return the pairs of name and value in a form or a query, which messages call by its name."""
    try:
        return parse_qsl(content.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError:
        raise HTTPException(400, f"{name} is not UTF-8") from None
    except ValueError:
        raise HTTPException(400, f"{name} has more than {MOST_FIELDS} fields") from None


def parameters_of(fields: Iterable[tuple[str, str]]) -> tuple[Parameters, str | None]:
    """Return the parameters among fields, and the field `text`; other fields have no effect, as for Annif."""
    texts: dict[str, str] = {}
    for name, text in fields:
        _check(name not in texts or name not in {"text", *READERS}, f"{name} is given twice")
        texts[name] = text
    values = {name: _value_of(name, text) for name, text in texts.items() if name in READERS}
    if values.get("assign"):
        _check(not values.get("threshold"), "assign and threshold exclude each other")
        values.setdefault("limit", MOST_EXPLAINED if values.get("explain") else MOST_LABELS)
    parameters = Parameters(**values)
    fits = not parameters.explain or parameters.limit <= MOST_EXPLAINED
    _check(fits, f"limit is {parameters.limit}, but with explain it can be at most {MOST_EXPLAINED}")
    return parameters, texts.get("text")


def _check(is_right: bool, problem: str) -> None:
    if not is_right:
        raise HTTPException(400, problem)


#: What reads the text of a parameter, the largest value, and what a value is in words.
READERS: dict[str, tuple[Callable[[str], Any], int, str]] = {
    "limit": (int, MOST_LABELS, f"a whole number from 0 to {MOST_LABELS}"),
    "threshold": (float, 1, "a number from 0 to 1"),
    "explain": (int, MOST_WORDS, f"a whole number from 0 to {MOST_WORDS}"),
    "assign": ({"true": True, "false": False}.__getitem__, 1, "true or false"),
}


def _value_of(name: str, text: str) -> Any:  # noqa: ANN401 -- of one of several types
    read, most, expected = READERS[name]
    try:
        value = read(text.lower())
    except (KeyError, ValueError):
        value = -1
    _check(0 <= value <= most, f"{name} is {excerpt(text)}, not {expected}")
    return value


def read_documents(body: bytes) -> tuple[list[str], list[str | None]]:
    """Return the texts and the identifiers of the documents of a batch."""
    batch = _read_json(body)
    documents = _member(batch, "documents", list, "the body")
    _check(
        len(documents) <= MOST_DOCUMENTS,
        f"documents has {len(documents)} items, but at most {MOST_DOCUMENTS} are allowed",
    )
    for name in Parameters._fields:
        _check(name not in batch, f"{name} is in the body; for a batch it must be in the query")
    texts, names = [], []
    for index, document in enumerate(documents):
        texts.append(_member(document, "text", str, f"documents[{index}]"))
        names.append(document.get("document_id"))
        _check(isinstance(names[-1], str | None), f"documents[{index}].document_id is not text or null")
    return texts, names


def read_learned(body: bytes) -> tuple[list[str], list[list[str]]]:
    """Return the texts of documents to be learned, and the labels of each: URIs, or names where there is no URI."""
    documents = _read_json(body)
    _check(isinstance(documents, list) and bool(documents), "the body is not a list of at least one document")
    texts, labels = [], []
    for index, document in enumerate(documents):
        place = f"body[{index}]"
        texts.append(_member(document, "text", str, place))
        subjects = _member(document, "subjects", list, place)
        labels.append([_label(subject, f"{place}.subjects[{number}]") for number, subject in enumerate(subjects)])
    return texts, labels


def _label(subject: object, place: str) -> str:
    has_uri = isinstance(subject, dict) and subject.get("uri") is not None
    label: str = _member(subject, "uri" if has_uri else "label", str, place)
    _check(bool(label.strip()), f"{place} has an empty label")
    return label


def _read_json(body: bytes) -> Any:  # noqa: ANN401 -- a value of JSON
    try:
        value = json.loads(body.decode())
        # Half of a surrogate pair cannot be encoded.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise HTTPException(400, "the body is not UTF-8, or has half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    return value


def _member(value: Any, name: str, kind: type, place: str) -> Any:  # noqa: ANN401 -- values of JSON
    """Return the member of an object of JSON, which must have this type."""
    _check(isinstance(value, dict), f"{place} is not an object")
    _check(name in value, f"{place}.{name} is missing")
    _check(isinstance(value[name], kind), f"{place}.{name} is not {'text' if kind is str else 'a list'}")
    return value[name]
