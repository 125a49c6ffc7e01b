"""Projects: the models that a server suggests labels with, each as it is in its folder now."""

import asyncio
import contextlib
import datetime
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.model_folder.description import DESCRIPTION
from xmlgp.runs.trained_model import load
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.problems import Unavailable
from xmlgp.serving.requests import Parameters
from xmlgp.serving.suggestions import suggest

__all__ = ["Project", "project_id"]

#: Seconds that requests wait for a model that has been replaced; then the one before answers until it is open.
PATIENCE = 1.0

#: Seconds after which a model that cannot be opened is tried again, at first and at most: it may be on its way into the
#: folder, file by file.
SOONEST = 2.0
LATEST = 60.0

#: Looks that find no model in the folder until it is logged.
MISSED = 3

#: A text that a new model is tried with. What a first request would wait for is done then.
TRIAL = "a text to try the model with"

log = logging.getLogger(__name__)


def project_id(path):
    """Return the project of a model: the name of its folder, or of the link that leads to it."""
    # A link is switched to another model, which goes on under the name of the link.
    return Path(os.path.abspath(path)).name


class Project:
    """The model in a folder, under the name of this folder; a model that replaces it is taken up.

    `model` is None until one could be opened.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self.id = project_id(path)
        self.model = None
        self.explains = False
        self._version = None
        self._modified = None
        self._opening = None
        self._failure = None
        self._missed = 0
        self._pause = SOONEST
        self._again = float("inf")
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="xmlgp-open")

    def open(self) -> None:
        """Open the model; XmlgpError if there is none in the folder, or it does not suggest labels of texts."""
        version = self._latest()
        self.model, self.explains = self._open()
        self._version = self._modified = version

    def open_if_possible(self) -> None:
        """Open the model; log why not if it cannot be opened, and try again later."""
        version = self._latest()
        try:
            self.open()
        except Exception as error:
            self._version = version
            self._put_off(version, error)

    async def current(self):
        """Return the model as it is now; one that takes long to open is not waited for.

        Problem 503 if no model could be opened yet.
        """
        latest = self._latest()
        # Without a model in the folder, the one that was there stays.
        new = latest != self._version or time.monotonic() >= self._again
        if latest and new and not self._opening:
            self._opening = asyncio.ensure_future(self._take_up(latest))
        if self._opening:
            await asyncio.wait([self._opening], timeout=PATIENCE)
        if self.model is None:
            raise Unavailable(f"the model of {excerpt(self.id)} cannot be opened now; try again later")
        return self.model

    async def look(self) -> None:
        """Take up a new model also while no one asks; log once that there is none any more."""
        # While one folder is moved into the place of another, there is none for a moment.
        self._missed = self._missed + 1 if self.model and self._latest() is None else 0
        if self._missed == MISSED:
            log.warning("%s: there is no model in the folder; the model before stays in use", self.path)
        with contextlib.suppress(Unavailable):
            await self.current()

    async def _take_up(self, version):
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._executor, self._open)
        except Exception as error:
            self._put_off(version, error)
        else:
            self.model, self.explains = found
            self._modified = version
            self._failure = None
            self._again = float("inf")
            log.info("%s: opened the model that is in the folder now", self.path)
        finally:
            self._version = version
            self._opening = None

    def _put_off(self, version, error):
        """Try a model that cannot be opened again later; log what is wrong with it once."""
        self._pause = min(2 * self._pause, LATEST) if version == self._version else SOONEST
        self._again = time.monotonic() + self._pause
        failure = version, repr(error)
        if failure == self._failure:
            return
        self._failure = failure
        until = "requests are answered with 503" if self.model is None else "the model before stays in use"
        if isinstance(error, XmlgpError):
            log.error("%s; %s", error, until)
        else:
            log.error("%s: the model could not be opened; %s", self.path, until, exc_info=error)

    def _latest(self):
        """Return what tells the models in the folder apart, or None if there is none."""
        try:
            found = os.stat(self.path / DESCRIPTION)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _open(self):
        """Return the model in the folder, and whether it can explain."""
        model = load(self.path)
        if not model.names.vectorizer:
            raise SettingsError(f"{self.path}: the model was not trained on text, so it has no suggestions for texts")
        if not model.names.labels:
            raise SettingsError(f"{self.path}: the labels of the model have no names")
        needed = [name for name in model.block_names if name != "encoder"]
        if needed:
            raise SettingsError(
                f"{self.path}: the model needs dense features from a file, which texts do not have; a model that was "
                "trained with an encoder computes them"
            )
        try:
            model.predictor.check_explainable()
            explains = True
        except SettingsError:
            explains = False
        suggest(model, [TRIAL], Parameters(explain=int(explains)))
        return model, explains

    def describe(self, learns):
        """Return the project as Annif describes one, and what a client needs to know of this server."""
        tuned = self.model and self.model.tuned
        of_probabilities = tuned is not None and tuned.output == "probability"
        return {
            "project_id": self.id,
            "name": self.id,
            # A model does not know the language of its texts.
            "language": "und",
            "backend": {"backend_id": "xmlgp"},
            "vocab": {
                "vocab_id": self.id,
                "languages": [],
                "size": self.model.data["K"] if self.model else None,
                "loaded": self.model is not None,
            },
            "vocab_language": None,
            "is_trained": self.model is not None,
            "modification_time": self._modification_time(),
            "learns": learns,
            "explains": self.explains,
            "tuned": {name: getattr(tuned, name) for name in ("metric", "threshold", "limit")}
            if of_probabilities
            else None,
        }

    def _modification_time(self) -> str | None:
        if self._modified is None:
            return None
        try:
            modified = datetime.datetime.fromtimestamp(self._modified[0] / 1e9, datetime.timezone.utc)
        except (OSError, OverflowError, ValueError):  # file systems have times that calendars do not
            return None
        return modified.isoformat().replace("+00:00", "Z")

    def close(self):
        """End the thread that opens models."""
        self._executor.shutdown(wait=False, cancel_futures=True)
