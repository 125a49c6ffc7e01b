"""The commands in the description of the interface, for the address, a project and a label that are really served."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request

__all__ = ["Example", "address_of", "with_examples"]

#: Names, addresses and ports, whose characters have no meaning in a quoted command.
HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")

#: The path under which a proxy passes requests on.
PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]{1,100}){1,10}")

#: The address where a request does not have one that can be shown.
UNKNOWN = "127.0.0.1"


class Example(NamedTuple):
    """What the commands ask for: None stands for what only those with a token may know."""

    address: str
    project: str | None = None
    label: str | None = None
    needs_token: bool = False


def address_of(request: Request) -> str:
    """Return the address at which a client reaches the server, such as https://example.org/tags.

    It is made of the header `Host`, of `X-Forwarded-Prefix` if a proxy sets it, and of the scheme, which is that of
    `X-Forwarded-Proto` if the proxy is on this machine.
    """
    host = request.headers.get("host", "")
    prefix = request.headers.get("x-forwarded-prefix", "").rstrip("/")
    scheme = "https" if request.url.scheme == "https" else "http"
    shown = host if HOST.fullmatch(host) else UNKNOWN
    return f"{scheme}://{shown}{prefix if PREFIX.fullmatch(prefix) else ''}"


def with_examples(document: Mapping[str, Any], example: Example) -> dict[str, Any]:
    """Return a description whose commands can be copied as they are.

    Whoever has a token puts it in place of TOKEN, and a project in place of PROJECT.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    project = "PROJECT" if example.project is None else quote(example.project, safe="")
    # The commands have it in single quotes.
    label = json.dumps(example.label or "LABEL").replace("'", "'\\''")
    for methods in changed["paths"].values():
        for operation in methods.values():
            is_open = operation.get("security") == []
            for sample in operation["x-codeSamples"]:
                source = sample["source"].replace("ADDRESS", example.address).replace("PROJECT", project)
                if example.needs_token and not is_open:
                    source = source.replace("curl ", "curl -H 'Authorization: Bearer TOKEN' ", 1)
                sample["source"] = source.replace('"LABEL"', label)
    return changed
