"""The application that a worker serves: Annif's REST interface, version 1, and a page to try it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import secrets
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from importlib.resources import files
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmlgp.runtime.threads import limit_threads
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.options import Options
from xmlgp.serving.projects import Project, Suggestions
from xmlgp.serving.requests import (
    FORM,
    JSON,
    Parameters,
    parameters_of,
    read_body,
    read_documents,
    read_fields,
    read_learned,
)

__all__ = ["is_loopback", "make_app"]

#: Paths that need no token: the page, which has no content of a model, and whether the server is well.
OPEN = ("/", "/healthz")

#: What the page may load: itself, with the script and the style that have the nonce of the answer.
POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def make_app(options: Options) -> Starlette:
    """Return the ASGI application for `Options`."""
    service = _Service(options)
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/healthz", _health),
            Route("/v1/projects", service.index),
            Route("/v1/projects/{id}", service.show),
            Route("/v1/projects/{id}/suggest", service.suggest, methods=["POST"]),
            Route("/v1/projects/{id}/suggest-batch", service.suggest_batch, methods=["POST"]),
            Route("/v1/projects/{id}/learn", service.learn, methods=["POST"]),
        ],
        middleware=[Middleware(_Guard, options)],
        exception_handlers=dict.fromkeys([HTTPException, Exception], _failure),
        lifespan=service.lifespan,
    )
    # An answer without content would tell nothing.
    app.router.redirect_slashes = False
    return app


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine only, by its name or address."""
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return what a client is told if its request fails: problem details (RFC 9457), with one sentence."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, "application/problem+json")


async def _failure(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _problem(error.status_code, error.detail, error.headers)
    # It is logged when it is raised again.
    return _problem(500, "the server failed; its log has the details")


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _page(request: Request) -> Response:
    nonce = secrets.token_urlsafe()
    page = files("xmlgp.serving").joinpath("page.html").read_text("utf-8").replace("NONCE", nonce)
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY.format(nonce)})


class _Guard:
    """Lets requests through to an ASGI application if they may ask it, and adds headers for browsers.

    Each request but those for `OPEN` paths needs the token, if there is one. Without a token, a server that only this
    machine reaches answers requests for this machine only: a page of a stranger, open in a browser here, could
    otherwise let its own name lead here and ask what it likes.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._token = options.token
        self._checks_host = options.is_local and options.token is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                # Answers are of this moment: the model may be another one in the next.
                headers["Cache-Control"] = "no-store"
            await send(message)

        problem = self._refusal(scope) if scope["type"] == "http" else None
        await (problem or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return why a request is refused, or None."""
        headers = Headers(scope=scope)
        if self._checks_host and not _is_for_this_machine(headers):
            return _problem(400, "without a token, this server answers requests for localhost only")
        if self._token is None or scope["path"] in OPEN:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode()):
            return None
        detail = "the token is wrong" if token else "a token is needed, as `Authorization: Bearer TOKEN`"
        return _problem(401, detail, {"WWW-Authenticate": "Bearer"})


def _is_for_this_machine(headers: Headers) -> bool:
    try:
        return is_loopback(urlsplit(f"//{headers.get('host', 'localhost')}").hostname)
    except ValueError:
        return False


class _Service:
    """The endpoints of projects, and the thread that scores texts."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._projects = {project.id: project for project in map(Project, options.models)}
        self._scoring = ThreadPoolExecutor(1, thread_name_prefix="xmlgp-score")

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Open the models before the application serves."""
        for project in self._projects.values():
            project.reload()
        yield
        self._scoring.shutdown(wait=False, cancel_futures=True)

    def _project(self, request: Request) -> Project:
        name = request.path_params["id"]
        if name not in self._projects:
            raise HTTPException(404, f"there is no project {excerpt(name)}")
        return self._projects[name]

    async def index(self, request: Request) -> Response:
        """List the projects."""
        projects = [project.describe(self._options.learns) for project in self._projects.values()]
        return JSONResponse({"projects": projects})

    async def show(self, request: Request) -> Response:
        """Show a project."""
        return JSONResponse(self._project(request).describe(self._options.learns))

    async def suggest(self, request: Request) -> Response:
        """Suggest labels of a text, which is in a form."""
        project = self._project(request)
        body = await read_body(request, FORM, self._options.largest)
        fields = read_fields(request.scope["query_string"], "the query") + read_fields(body, "the form")
        parameters, text = parameters_of(fields)
        if text is None:
            raise HTTPException(400, "the field text is missing")
        (results,) = await self._suggestions(project, [text], parameters)
        return JSONResponse({"results": results})

    async def suggest_batch(self, request: Request) -> Response:
        """Suggest labels of several texts, with the parameters in the query."""
        project = self._project(request)
        parameters, _ = parameters_of(read_fields(request.scope["query_string"], "the query"))
        texts, names = read_documents(await read_body(request, JSON, self._options.largest))
        results = await self._suggestions(project, texts, parameters)
        return JSONResponse(
            [{"results": result, "document_id": name} for result, name in zip(results, names, strict=True)]
        )

    async def _suggestions(self, project: Project, texts: list[str], parameters: Parameters) -> Suggestions:
        def suggest() -> Suggestions:
            with limit_threads(self._options.threads):
                return project.suggest(texts, parameters)

        return await asyncio.get_running_loop().run_in_executor(self._scoring, suggest)

    async def learn(self, request: Request) -> Response:
        """Let a model learn texts with their labels."""
        project = self._project(request)
        if not self._options.learns:
            raise HTTPException(403, f"{excerpt(project.id)} does not learn; the server was started without --learn")
        texts, labels = read_learned(await read_body(request, JSON, self._options.largest))
        await asyncio.to_thread(project.learn, texts, labels)
        return Response(status_code=204)
