"""Metrics of a server for Prometheus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response

from xmlgp.runtime.atomic_files import report_errors_as

__all__ = ["Metrics"]

#: The variable of prometheus_client that names the folder in which processes share their metrics.
SHARED = "PROMETHEUS_MULTIPROC_DIR"

#: Upper bounds of the times that are counted, in seconds.
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)

#: The files of a worker, by the beginning of their names.
FILES = ("counter", "histogram", "gauge_livesum")

#: Bytes of each: of a server, and for each of its projects.
SIZE = 1 << 18
OF_PROJECT = 1 << 12


class Metrics:
    """Counts what a worker does. The workers of a server share a folder, in which each has the files of its number.

    OSError is raised if there is no space for the files.
    """

    def __init__(self, projects: int = 1, folder: Path | None = None, number: int = 0) -> None:
        self._folder = folder
        if folder:
            _share(folder, number, projects)
        self._registry = CollectorRegistry()
        shared: Any = {"registry": self._registry}
        self.requests = Counter("xmlgp_requests", "Requests that were answered.", ["endpoint", "status"], **shared)
        self.seconds = Histogram(
            "xmlgp_request_seconds", "Time from a request to its answer.", ["endpoint"], buckets=SECONDS, **shared
        )
        self.documents = Counter("xmlgp_documents", "Documents that labels were suggested for.", ["project"], **shared)
        self.learned = Counter(
            "xmlgp_learned_documents", "Documents that were sent to be learned.", ["project"], **shared
        )
        self.batches = Histogram(
            "xmlgp_batch_documents",
            "Documents that were scored together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            **shared,
        )
        self.waiting = Gauge(
            "xmlgp_waiting_requests", "Requests that wait for suggestions.", multiprocess_mode="livesum", **shared
        )
        # What waited in the worker before this one has ended with it.
        self.waiting.set(0)

    def response(self) -> Response:
        """Return the metrics of all workers, in the text form of Prometheus."""
        registry = self._registry
        if self._folder:
            # Someone may have tidied it up.
            self._folder.mkdir(parents=True, exist_ok=True)
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _share(folder: Path, number: int, projects: int) -> None:
    """Let this worker count in files of its own, whose space is reserved, and go on in those of the one before it.

    Files are mapped: without space on the disk, counting would end the process (SIGBUS).
    """
    os.environ[SHARED] = os.fspath(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for kind in FILES:
        file = folder / f"{kind}_{number}.db"
        if file.exists():
            continue
        try:
            with report_errors_as(folder, file):
                file.write_bytes(bytes(SIZE + OF_PROJECT * projects))
        except OSError:
            file.unlink(missing_ok=True)
            raise
    values.ValueClass = values.MultiProcessValue(lambda: number)
