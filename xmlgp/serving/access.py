"""Who may ask: the token of a server, the host that a request is for, and what browsers may do with an answer."""

from __future__ import annotations

import hmac
import ipaddress
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmlgp.serving.options import Options
from xmlgp.serving.problems import Problem, problem_response

__all__ = ["Access", "is_loopback"]

#: Names of this machine, as browsers on it write them.
LOOPBACK = "localhost"

#: An address of IPv6 in brackets, or another address or a name; and a port.
HOST = re.compile(r"(?:\[([0-9a-f:.%]*)\]|([^:\[\]@]*))(?::[0-9]*)?")

#: Whatever needs no token: pages without content of a model, and whether the server is well.
OPEN = ("/", "/page.css", "/page.js", "/healthz", "/v1/ui/", "/v1/openapi.json")

#: What a client is told that asks for another host.
FOREIGN = "this server answers requests for this machine only; whoever runs it can add the name with --allow-host"

#: Pages load their own files only, and are not shown within others.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine only, by its name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOOPBACK


class Access:
    """Lets requests through to an ASGI application if they may ask it, and adds headers for browsers.

    Each request but those for the pages needs the token, if there is one. Without a token, a server that only this
    machine reaches answers requests for this machine and for the allowed hosts only: a page of a stranger, open in a
    browser here, could otherwise let its own name lead here and ask what it likes.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._token = options.token
        self._checks_host = options.is_local and options.token is None
        self._hosts = {host.lower() for host in options.allow_host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Content-Security-Policy"] = POLICY
                headers["Referrer-Policy"] = "no-referrer"
                # Answers are of this moment: the model may be another one in the next.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._problem(scope)
        await (problem_response(problem) if problem else self._app)(scope, receive, send_with_headers)

    def _problem(self, scope: Scope) -> Problem | None:
        """Return why a request is refused, or None."""
        headers = Headers(scope=scope)
        if self._checks_host:
            host = _name_of(headers.get("host", LOOPBACK))
            if not is_loopback(host) and host not in self._hosts:
                return Problem(400, FOREIGN)
        if self._token is None or scope["path"] in OPEN:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode()):
            return None
        detail = "the token is wrong" if token else "a token is needed, as `Authorization: Bearer TOKEN`"
        return Problem(401, detail, {"WWW-Authenticate": "Bearer"})


def _name_of(host: str) -> str:
    """Return the name or the address in a header `Host`, without the port, or nothing if it is malformed."""
    match = HOST.fullmatch(host.strip().lower())
    return (match[1] or match[2]) if match else ""
