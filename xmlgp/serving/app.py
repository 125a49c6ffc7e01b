"""The application that a worker serves: Annif's REST interface, version 1, and the pages."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from importlib.resources import files
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.access import Access
from xmlgp.serving.batching import Queue
from xmlgp.serving.learning import Learner
from xmlgp.serving.lines import finish_lines
from xmlgp.serving.logs import RequestLog, configure_log
from xmlgp.serving.metrics import Metrics
from xmlgp.serving.problems import FAILED, Problem, problem_response
from xmlgp.serving.projects import Project
from xmlgp.serving.reference import openapi, reference_page
from xmlgp.serving.requests import FORM, JSON, Bodies, Parameters, parsed, read_form, read_json, read_query, text_of
from xmlgp.version import __version__

__all__ = ["Options", "create_app", "make_app"]

#: Documents of a batch, as for Annif.
MOST_DOCUMENTS = 32

#: Seconds between looks at the models, and at the process that started this one.
LOOK = 1.0

log = logging.getLogger(__name__)

PAGE_TYPES = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


class Options(NamedTuple):
    """How a server answers, the same for each of its workers; see `serve`. Sizes are in bytes and documents."""

    models: tuple[str, ...]
    learns: bool = False
    token: str | None = None
    local: bool = True
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    log: str = "text"
    largest: int = 4_000_000
    seconds: float = 30.0
    queue: int = 512
    threads: int | None = None
    parent: int | None = None


def create_app(options: Options) -> ASGIApp:
    """Return the application of a worker, which ends if it cannot work at all.

    The models could be opened when the server started. One that can no longer be opened does not stop the others.
    """
    configure_log(options.log)
    if hasattr(signal, "SIGHUP"):
        # A closed terminal sends it to all processes; the one that looks after this one ends it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        metrics = Metrics(len(options.models))
    except OSError as error:
        log.error("%s: the metrics of a worker have no space: %s", error.filename, error.strerror)
        finish_lines()
        sys.exit(STARTUP_FAILURE)
    return make_app(options, metrics)


def make_app(options: Options, metrics: Metrics | None = None) -> ASGIApp:
    """Return the ASGI application for `Options`."""
    metrics = metrics or Metrics()
    service = _Service(options, metrics)
    app = Starlette(
        routes=service.routes(),
        exception_handlers={Problem: _on_problem, HTTPException: _on_http_exception, Exception: _on_failure},
        lifespan=service.lifespan,
    )
    # An answer without content would tell nothing.
    app.router.redirect_slashes = False
    app = Access(app, options.token, options.local, options.allow_host)
    if options.allow_origin:
        # A browser asks whether it may send a token without sending it.
        allowed = {"allow_origins": options.allow_origin, "allow_methods": ["GET", "POST"]}
        app = CORSMiddleware(app, **allowed, allow_headers=["Authorization", "Content-Type"])
    return RequestLog(app, metrics, options.log)


async def _on_problem(request, problem):
    return problem_response(problem)


async def _on_http_exception(request, error):
    """Return the answer to a path or method that does not exist."""
    path = excerpt(request.url.path)
    detail = f"{path} does not take {request.method}" if error.status_code == 405 else f"there is no {path}"
    return problem_response(Problem(error.status_code, detail, error.headers))


async def _on_failure(request, error):
    # It is logged when it is raised again.
    return problem_response(Problem(500, FAILED))


class _Service:
    """The endpoints, and what they share: the projects, the queue and the bodies that are being read."""

    def __init__(self, options, metrics):
        self._options = options
        self._metrics = metrics
        self._projects = {project.id: project for project in map(Project, options.models)}
        for project in self._projects.values():
            project.open_if_possible()
        self._bodies = Bodies(options.largest, options.seconds)
        self._queue = Queue(options.queue, options.seconds, options.threads, metrics.batches.observe)
        self._learner = Learner(options.seconds, len(self._projects))
        self._learning = {name: asyncio.Lock() for name in self._projects}
        self._openapi = openapi(__version__)

    def routes(self):
        """Return the routes of the application."""
        project = "/v1/projects/{project_id}"
        routes = [
            ("/", "GET", self._page),
            *((f"/{name}", "GET", self._file) for name in PAGE_TYPES),
            ("/healthz", "GET", self._health),
            ("/metrics", "GET", self._measurements),
            ("/v1/", "GET", self._about),
            ("/v1/openapi.json", "GET", self._description),
            ("/v1/ui/", "GET", self._reference),
            ("/v1/projects", "GET", self._list),
            (project, "GET", self._show),
            (f"{project}/suggest", "POST", self._suggest),
            (f"{project}/suggest-batch", "POST", self._suggest_batch),
            (f"{project}/learn", "POST", self._learn),
        ]
        return [Route(path, _named(path, function), methods=[method]) for path, method, function in routes]

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
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

    async def _watch(self):
        """Take up new models also while no one asks, and end if the process that started this one has gone."""
        while True:
            await asyncio.sleep(LOOK)
            for project in self._projects.values():
                await project.look()
            if self._options.parent not in (None, os.getppid()):
                os.kill(os.getpid(), signal.SIGTERM)

    def _project(self, request):
        name = request.path_params["project_id"]
        if name not in self._projects:
            raise Problem(404, f"there is no project {excerpt(name)}")
        return self._projects[name]

    async def _page(self, request):
        return HTMLResponse(_read("page.html"))

    async def _file(self, request):
        name = request.url.path.removeprefix("/")
        return Response(_read(name), media_type=PAGE_TYPES[name])

    async def _health(self, request):
        return JSONResponse({"status": "ok"})

    async def _measurements(self, request):
        return self._metrics.response()

    async def _about(self, request):
        return JSONResponse({"title": "xmlgp", "version": __version__})

    async def _description(self, request):
        return JSONResponse(self._openapi)

    async def _reference(self, request):
        return HTMLResponse(reference_page(self._openapi))

    async def _list(self, request):
        return JSONResponse({"projects": [own.describe(self._options.learns) for own in self._projects.values()]})

    async def _show(self, request):
        return JSONResponse(self._project(request).describe(self._options.learns))

    async def _suggest(self, request):
        project = self._project(request)
        async with self._bodies.read(request, FORM) as body:
            fields = read_query(request) + await parsed(read_form, body)
            texts = [value for name, value in fields if name == "text"]
            if len(texts) != 1:
                raise Problem(400, f"text is given {len(texts)} times" if texts else "the form has no field text")
            (found,) = await self._suggestions(request, project, texts, Parameters.of(fields))
        return JSONResponse({"results": found})

    async def _suggest_batch(self, request):
        project = self._project(request)
        parameters = Parameters.of(read_query(request))
        async with self._bodies.read(request, JSON) as body:
            given = await parsed(read_json, body)
            documents = given.get("documents") if isinstance(given, dict) else None
            if documents is not None and given.keys() & set(Parameters._fields):
                name = min(given.keys() & set(Parameters._fields))
                raise Problem(400, f"{name} is in the body; for a batch it must be in the query")
            if not isinstance(documents, list):
                raise Problem(400, "the body is not an object with a list of documents")
            if len(documents) > MOST_DOCUMENTS:
                raise Problem(400, f"there are {len(documents)} documents, but a request can have {MOST_DOCUMENTS}")
            texts = [text_of(own, "text", f"document {place}") for place, own in enumerate(documents)]
            names = [
                None if own.get("document_id") is None else text_of(own, "document_id", f"document {place}")
                for place, own in enumerate(documents)
            ]
            found = await self._suggestions(request, project, texts, parameters) if texts else []
        return JSONResponse([{"results": own, "document_id": name} for own, name in zip(found, names, strict=True)])

    async def _suggestions(self, request, project, texts, parameters):
        request.state.documents = len(texts)
        model = await project.current()
        with self._metrics.waiting.track_inprogress():
            found = await self._queue.suggest(model, texts, parameters)
        self._metrics.documents.labels(project.id).inc(len(texts))
        return found

    async def _learn(self, request):
        project = self._project(request)
        options = self._options
        if not options.learns:
            raise Problem(403, f"{excerpt(project.id)} does not learn; the server was started without --learn")
        async with self._bodies.read(request, JSON) as body:
            documents = await parsed(read_json, body)
            if not isinstance(documents, list):
                raise Problem(400, "the body is not a list of documents")
            if not documents:
                raise Problem(400, "there are no documents")
            names = [f"document {place}" for place in range(len(documents))]
            texts = [text_of(own, "text", name) for own, name in zip(documents, names, strict=True)]
            labels = [_subjects(own, name) for own, name in zip(documents, names, strict=True)]
            request.state.documents = len(texts)
            lock = self._learning[project.id]
            try:
                # One at a time: the next would wait for the folder anyway, in a process.
                await asyncio.wait_for(lock.acquire(), options.seconds)
            except asyncio.TimeoutError:
                raise Problem(503, "the model is learning; try again later", {"Retry-After": "10"}) from None
            try:
                await self._learner.learn(os.fspath(project.path), texts, labels)
            finally:
                lock.release()
        self._metrics.learned.labels(project.id).inc(len(texts))
        await project.look()
        return Response(status_code=204)


def _named(path, function):
    """Return an endpoint that notes its path for the metrics, where the path of a request could be any."""

    async def endpoint(request):
        request.state.endpoint = path
        return await function(request)

    return endpoint


def _subjects(document, name):
    """Return what identifies the labels of a document: their URIs, or their names where they have no URI."""
    subjects = document.get("subjects")
    if not isinstance(subjects, list):
        raise Problem(400, f"{name} has no list of subjects")
    found = []
    for place, subject in enumerate(subjects):
        of = f"subject {place} of {name}"
        given = isinstance(subject, dict) and subject.get("uri") in (None, "")
        found.append(text_of(subject, "label" if given else "uri", of))
    return found


def _read(name):
    return files("xmlgp.serving").joinpath(name).read_text("utf-8")
