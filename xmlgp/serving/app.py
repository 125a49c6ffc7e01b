"""The application that a worker serves: Annif's REST interface, version 1, and the pages."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.access import Access
from xmlgp.serving.batching import Queue
from xmlgp.serving.contract import Contract
from xmlgp.serving.examples import Example, address_of, with_examples
from xmlgp.serving.learning import Learner
from xmlgp.serving.lines import finish_lines
from xmlgp.serving.logs import RequestLog
from xmlgp.serving.metrics import Metrics
from xmlgp.serving.options import Options
from xmlgp.serving.problems import FAILED, Problem, problem_response
from xmlgp.serving.projects import Project
from xmlgp.serving.reference import openapi, reference_page
from xmlgp.serving.requests import Bodies, Parameters, parsed, read_form, read_json, read_query
from xmlgp.serving.suggestions import Suggestions
from xmlgp.version import __version__

__all__ = ["make_app"]

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

#: Seconds between looks at the models.
LOOK = 1.0

PAGE_TYPES = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}

#: Paths of requests with a body, as the OpenAPI document has them.
PROJECT = "/v1/projects/{project_id}"
SUGGEST = f"{PROJECT}/suggest"
BATCH = f"{PROJECT}/suggest-batch"
LEARN = f"{PROJECT}/learn"


def make_app(options: Options, metrics: Metrics | None = None) -> ASGIApp:
    """Return the ASGI application for `Options`."""
    metrics = metrics or Metrics()
    service = _Service(options, metrics)
    starlette = Starlette(
        routes=service.routes(),
        exception_handlers={Problem: _on_problem, HTTPException: _on_http_exception, Exception: _on_failure},
        lifespan=service.lifespan,
    )
    # An answer without content would tell nothing.
    starlette.router.redirect_slashes = False
    app: ASGIApp = Access(starlette, options)
    if options.allow_origin:
        # A browser asks whether it may send a token without sending it.
        app = CORSMiddleware(
            app,
            allow_origins=options.allow_origin,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return RequestLog(app, metrics, options.log)


async def _on_problem(request: Request, problem: Exception) -> Response:
    return problem_response(problem) if isinstance(problem, Problem) else await _on_failure(request, problem)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Return the answer to a path or method that does not exist."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    path = excerpt(request.url.path)
    detail = f"{path} does not take {request.method}" if status == 405 else f"there is no {path}"
    return problem_response(Problem(status, detail, getattr(error, "headers", None)))


async def _on_failure(request: Request, error: Exception) -> Response:
    # It is logged when it is raised again.
    return problem_response(Problem(500, FAILED))


class _Service:
    """The endpoints, and what they share: the projects, the queue and the bodies that are being read."""

    def __init__(self, options: Options, metrics: Metrics) -> None:
        self._options = options
        self._metrics = metrics
        self._projects = {project.id: project for project in map(Project, options.models)}
        for project in self._projects.values():
            project.open_if_possible()
        self._bodies = Bodies(options.largest, options.seconds)
        self._queue = Queue(options.queue, options.seconds, options.threads, metrics.batches.observe)
        self._learner = Learner(options.seconds, len(self._projects))
        self._locks = {name: asyncio.Lock() for name in self._projects}
        self._openapi = openapi(__version__)
        self._contract = Contract(self._openapi)

    def routes(self) -> list[Route]:
        """Return the routes of the application."""
        routes: list[tuple[str, str, Endpoint]] = [
            ("/", "GET", self._page),
            *((f"/{name}", "GET", self._file) for name in PAGE_TYPES),
            ("/healthz", "GET", self._health),
            ("/metrics", "GET", self._measurements),
            ("/v1/", "GET", self._about),
            ("/v1/openapi.json", "GET", self._description),
            ("/v1/ui/", "GET", self._reference),
            ("/v1/projects", "GET", self._list),
            (PROJECT, "GET", self._show),
            (SUGGEST, "POST", self._suggest),
            (BATCH, "POST", self._suggest_batch),
            (LEARN, "POST", self._learn),
        ]
        return [Route(path, _named(path, function), methods=[method]) for path, method, function in routes]

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Score and look after models while the application serves."""
        tasks = [asyncio.ensure_future(self._queue.run()), asyncio.ensure_future(self._watch())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._queue.close()
            self._learner.close()
            for project in self._projects.values():
                project.close()
            finish_lines()

    async def _watch(self) -> None:
        """Take up new models also while no one asks."""
        while True:
            await asyncio.sleep(LOOK)
            for project in self._projects.values():
                await project.look()

    def _project(self, request: Request) -> Project:
        name = request.path_params["project_id"]
        if name not in self._projects:
            raise Problem(404, f"there is no project {excerpt(name)}")
        return self._projects[name]

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(_read("page.html"))

    async def _file(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response(_read(name), media_type=PAGE_TYPES[name])

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _measurements(self, request: Request) -> Response:
        return self._metrics.response()

    async def _about(self, request: Request) -> Response:
        return JSONResponse({"title": "xmlgp", "version": __version__})

    async def _description(self, request: Request) -> Response:
        return JSONResponse(with_examples(self._openapi, self._example(request)))

    async def _reference(self, request: Request) -> Response:
        return HTMLResponse(reference_page(with_examples(self._openapi, self._example(request))))

    def _example(self, request: Request) -> Example:
        """Return what the commands of the description ask for: nothing that needs a token."""
        address = address_of(request)
        if self._options.token is not None:
            return Example(address, needs_token=True)
        project = next(iter(self._projects.values()))
        labels = project.model.names.labels if project.model else None
        return Example(address, project.id, labels[0] if labels else None)

    async def _list(self, request: Request) -> Response:
        projects = [project.describe(self._options.learns) for project in self._projects.values()]
        return JSONResponse({"projects": projects})

    async def _show(self, request: Request) -> Response:
        return JSONResponse(self._project(request).describe(self._options.learns))

    async def _suggest(self, request: Request) -> Response:
        project = self._project(request)
        async with self._bodies.read(request, self._contract.body(SUGGEST)[0]) as body:
            fields = self._contract.read_fields(read_query(request) + await parsed(read_form, body), SUGGEST)
            if "text" not in fields:
                raise Problem(400, "the field text is missing")
            results = await self._suggestions(request, project, [fields["text"]], Parameters.of(fields))
        return JSONResponse({"results": results[0]})

    async def _suggest_batch(self, request: Request) -> Response:
        project = self._project(request)
        parameters = Parameters.of(self._contract.read_fields(read_query(request), SUGGEST))
        async with self._read_json(request, BATCH) as batch:
            for name in Parameters._fields:
                if name in batch:
                    raise Problem(400, f"{name} is in the body; for a batch it must be in the query")
            documents = batch["documents"]
            texts = [document["text"] for document in documents]
            results = await self._suggestions(request, project, texts, parameters) if texts else []
        names = [document.get("document_id") for document in documents]
        return JSONResponse(
            [{"results": result, "document_id": name} for result, name in zip(results, names, strict=True)]
        )

    async def _suggestions(
        self, request: Request, project: Project, texts: list[str], parameters: Parameters
    ) -> Suggestions:
        request.state.documents = len(texts)
        model = await project.current()
        with self._metrics.waiting.track_inprogress():
            suggestions = await self._queue.suggest(model, texts, parameters)
        self._metrics.documents.labels(project.id).inc(len(texts))
        return suggestions

    async def _learn(self, request: Request) -> Response:
        project = self._project(request)
        if not self._options.learns:
            raise Problem(403, f"{excerpt(project.id)} does not learn; the server was started without --learn")
        async with self._read_json(request, LEARN) as documents:
            texts = [document["text"] for document in documents]
            # A label that has no URI is identified by its name.
            labels = [
                [subject.get("uri") or subject["label"] for subject in document["subjects"]] for document in documents
            ]
            request.state.documents = len(texts)
            async with self._learning(project):
                await self._learner.learn(os.fspath(project.path), texts, labels)
        self._metrics.learned.labels(project.id).inc(len(texts))
        await project.look()
        return Response(status_code=204)

    @contextlib.asynccontextmanager
    async def _learning(self, project: Project) -> AsyncIterator[None]:
        """Let a project learn one batch at a time: the next would wait for the folder anyway, in a process."""
        lock = self._locks[project.id]
        try:
            await asyncio.wait_for(lock.acquire(), self._options.seconds)
        except asyncio.TimeoutError:
            raise Problem(503, "the model is learning; try again later", {"Retry-After": "10"}) from None
        try:
            yield
        finally:
            lock.release()

    @contextlib.asynccontextmanager
    async def _read_json(self, request: Request, path: str) -> AsyncIterator[Any]:
        """Yield the value that is posted to a path, as the OpenAPI document describes it."""
        content_type, schema = self._contract.body(path)
        async with self._bodies.read(request, content_type) as body:
            value = await parsed(read_json, body)
            self._contract.check(value, schema)
            yield value


def _named(path: str, function: Endpoint) -> Endpoint:
    """Return an endpoint that notes its path for the metrics, where the path of a request could be any."""

    async def endpoint(request: Request) -> Response:
        request.state.endpoint = path
        return await function(request)

    return endpoint


def _read(name: str) -> str:
    return files("xmlgp.serving").joinpath(name).read_text("utf-8")
