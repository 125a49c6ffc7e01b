"""Who may ask: the token of a server, the host that a request is for, and what browsers may do with an answer."""

import hmac
import ipaddress
import re

from starlette.datastructures import Headers, MutableHeaders

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


def is_loopback(host):
    """Return whether a host is this machine only, by its name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOOPBACK


class Access:
    """Lets requests through to an ASGI application if they may ask it, and adds headers for browsers.

    Each request but those for the pages needs the token, if there is one. Without a token, a server that only this
    machine reaches answers requests for this machine and for `hosts` only: a page of a stranger, open in a browser
    here, could otherwise let its own name lead here and ask what it likes.
    """

    def __init__(self, app, token=None, local=True, hosts=()):
        self._app = app
        self._token = token
        self._hosts = {host.lower() for host in hosts} if local and token is None else None

    async def __call__(self, scope, receive, send):
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message):
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

    def _problem(self, scope):
        """Return why a request is refused (`Problem`), or None."""
        headers = Headers(scope=scope)
        if self._hosts is not None:
            host = _name_of(headers.get("host", LOOPBACK))
            if not is_loopback(host) and host not in self._hosts:
                return Problem(400, FOREIGN)
        if self._token is None or scope["path"] in OPEN:
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        detail = "the token is wrong" if given else "a token is needed, as `Authorization: Bearer TOKEN`"
        return Problem(401, detail, {"WWW-Authenticate": "Bearer"})


def _name_of(host: str) -> str:
    """Return the name or the address in a header `Host`, without the port, or nothing if it is malformed."""
    found = HOST.fullmatch(host.strip().lower())
    return found[1] or found[2] if found else ""
