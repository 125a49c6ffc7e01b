"""Projects: the models that a server suggests labels with, each as it is in its folder now."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.model_folder.description import DESCRIPTION
from xmlgp.runs.trained_model import TrainedModel, load
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.problems import Unavailable
from xmlgp.serving.requests import Parameters
from xmlgp.serving.suggestions import suggest

__all__ = ["Project", "project_id"]

#: Seconds that requests wait for a model that has been replaced; then the one before answers until it is open.
PATIENCE = 1.0

#: Seconds after which a model that cannot be opened is tried again: it may be on its way into the folder, file by file.
RETRY = 5.0

#: A text that a new model is tried with. What a first request would wait for is done then.
TRIAL = "a text to try the model with"

#: The ending of packed models.
PACKED = ".zip"

log = logging.getLogger(__name__)

#: What tells the models in a folder apart: when the description was written, in nanoseconds, its inode and its size. Of
#: a packed model it is the file itself.
Version: TypeAlias = tuple[int, int, int]


def project_id(path: str | os.PathLike[str]) -> str:
    """Return the project of a model: the name of its folder or of the link that leads to it, or that of a packed one.

    The ending .zip is not part of it.
    """
    # A link is switched to another model, which goes on under the name of the link.
    name = Path(os.path.abspath(path)).name
    is_folder = os.path.isdir(path) or not name.lower().endswith(PACKED)
    return name if is_folder else name[: -len(PACKED)]


class Project:
    """The model in a folder, or a packed one, under the name of this folder; a model that replaces it is taken up.

    `model` is None until one could be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = project_id(path)
        self.model: TrainedModel | None = None
        self.explains = False
        #: The version of the folder that was last opened or tried, and that of `model`.
        self._version: Version | None = None
        self._model_version: Version | None = None
        self._opening: asyncio.Future[None] | None = None
        self._failure: tuple[Version | None, str] | None = None
        #: When a model that could not be opened is tried again.
        self._retry = float("inf")
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="xmlgp-open")

    def open(self) -> None:
        """Open the model; XmlgpError if there is none in the folder, or it does not suggest labels of texts."""
        version = self._latest()
        model = load(self.path)
        if not model.names.vectorizer:
            raise SettingsError(f"{self.path}: the model was not trained on text, so it has no suggestions for texts")
        if not model.names.labels:
            raise SettingsError(f"{self.path}: the labels of the model have no names")
        if set(model.block_names) - {"encoder"}:
            raise SettingsError(
                f"{self.path}: the model needs dense features from a file, which texts do not have; a model that was "
                "trained with an encoder computes them"
            )
        explains = True
        try:
            model.predictor.check_explainable()
        except SettingsError:
            explains = False
        suggest(model, [TRIAL], Parameters(explain=int(explains)))
        self.model = model
        self.explains = explains
        self._model_version = version

    def open_if_possible(self) -> None:
        """Open the model; log once why it cannot be opened, and try again later."""
        is_first = self._version is None
        version = self._version = self._latest()
        self._retry = float("inf")
        try:
            self.open()
        except Exception as error:
            self._retry = time.monotonic() + RETRY
            failure = version, repr(error)
            if failure != self._failure:
                self._failure = failure
                self._log_failure(error)
        else:
            self._failure = None
            if not is_first:
                log.info("%s: opened the model that is in the folder now", self.path)

    def _log_failure(self, error: Exception) -> None:
        until = "requests are answered with 503" if self.model is None else "the model before stays in use"
        if isinstance(error, XmlgpError):
            log.error("%s; %s", error, until)
        else:
            log.error("%s: the model could not be opened; %s", self.path, until, exc_info=error)

    async def current(self) -> TrainedModel:
        """Return the model as it is now; one that takes long to open is not waited for.

        Problem 503 if no model could be opened yet.
        """
        latest = self._latest()
        is_new = latest != self._version or time.monotonic() >= self._retry
        # Without a model in the folder, the one that was there stays.
        if latest and is_new and (not self._opening or self._opening.done()):
            loop = asyncio.get_running_loop()
            self._opening = loop.run_in_executor(self._executor, self.open_if_possible)
        if self._opening:
            await asyncio.wait([self._opening], timeout=PATIENCE)
        if self.model is None:
            raise Unavailable(f"the model of {excerpt(self.id)} cannot be opened now; try again later")
        return self.model

    async def look(self) -> None:
        """Take up a new model also while no one asks."""
        with contextlib.suppress(Unavailable):
            await self.current()

    def _latest(self) -> Version | None:
        """Return the version of the model in the folder, or of the packed one; None if there is none."""
        try:
            status = os.stat(self.path if self.path.is_file() else self.path / DESCRIPTION)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def describe(self, learns: bool) -> dict[str, Any]:
        """Return the project as Annif describes one, and what a client needs to know of this server."""
        model = self.model
        tuned = None
        if model and model.tuned and model.tuned.output == "probability":
            tuned = {name: getattr(model.tuned, name) for name in ("metric", "threshold", "limit")}
        return {
            "project_id": self.id,
            "name": self.id,
            # A model does not know the language of its texts.
            "language": "und",
            "backend": {"backend_id": "xmlgp"},
            "vocab": {
                "vocab_id": self.id,
                "languages": [],
                "size": model.data["K"] if model else None,
                "loaded": model is not None,
            },
            "vocab_language": None,
            "is_trained": model is not None,
            "modification_time": self._modification_time(),
            "learns": learns,
            "explains": self.explains,
            "tuned": tuned,
        }

    def _modification_time(self) -> str | None:
        if self._model_version is None:
            return None
        try:
            seconds = self._model_version[0] / 1e9
            modified = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        except (OSError, OverflowError, ValueError):  # file systems have times that calendars do not
            return None
        return modified.isoformat().replace("+00:00", "Z")

    def close(self) -> None:
        """End the thread that opens models."""
        self._executor.shutdown(wait=False, cancel_futures=True)
