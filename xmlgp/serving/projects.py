"""Projects: the models that a server suggests labels with, each as it is in its folder now."""

from __future__ import annotations

import datetime
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException

from xmlgp.api.learn import learn
from xmlgp.api.predict import predict
from xmlgp.api.trained_model import TrainedModel, load
from xmlgp.model_folder.description import DESCRIPTION
from xmlgp.runtime.errors import ModelInUseError, SettingsError, UsageError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.serving.requests import Parameters

__all__ = ["Project", "Suggestions"]

#: For each text the labels, each with `score` and `probability`, which are the same, `std`, and what explains it.
Suggestions: TypeAlias = list[list[dict[str, Any]]]

#: A text that a new model is tried with. What a first request would wait for is done then.
TRIAL = "a text to try the model with"

log = logging.getLogger(__name__)


class Project:
    """The model in a folder, under the name of the folder or of the link to it; `model` is None until it is opened.

    Methods may run on several threads, `suggest` on one at a time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.id = Path(os.path.abspath(path)).name
        self.model: TrainedModel | None = None
        self._explains = False
        #: When the description of `model` was written, in nanoseconds, its inode and its size.
        self._stamp: tuple[int, int, int] | None = None
        self._failure = ""
        self._reloading = threading.Lock()
        self._learning = threading.Lock()

    def open(self) -> None:
        """Open the model; XmlgpError if there is none in the folder, or it does not suggest labels of texts."""
        stamp = self._current_stamp()
        model = load(self.path)
        if not model.names.vectorizer:
            raise SettingsError(f"{self.path}: the model was not trained on text, so it has no suggestions for texts")
        if not model.names.labels:
            raise SettingsError(f"{self.path}: the labels of the model have no names")
        explains = True
        try:
            model.predictor.check_explainable()
        except SettingsError:
            explains = False
        _suggest(model, [TRIAL], Parameters(explain=int(explains)))
        self.model, self._explains, self._stamp = model, explains, stamp

    def reload(self) -> None:
        """Open the model that is in the folder now if it is another one; if it cannot be opened, the one before stays.

        Why it cannot be opened is logged once.
        """
        with self._reloading:
            stamp = self._current_stamp()
            if stamp is None or stamp == self._stamp:
                return
            is_first = self.model is None
            try:
                self.open()
            except Exception as error:
                if repr(error) != self._failure:
                    self._failure = repr(error)
                    until = "requests are answered with 503" if is_first else "the model before stays in use"
                    log.error("%s: the model cannot be opened; %s: %s", self.path, until, error)
            else:
                self._failure = ""
                if not is_first:
                    log.info("%s: opened the model of %s", self.path, self._modified())

    def suggest(self, texts: Sequence[str], parameters: Parameters) -> Suggestions:
        """Return the suggestions for texts; status 503 if there is no model, 400 if it refuses the parameters."""
        # Another worker may have learned since.
        self.reload()
        if self.model is None:
            detail = f"the model of {excerpt(self.id)} cannot be opened now; try again later"
            raise HTTPException(503, detail, {"Retry-After": "5"})
        try:
            return _suggest(self.model, texts, parameters)
        except XmlgpError as error:
            raise HTTPException(400, self._without_path(error)) from None

    def learn(self, texts: list[str], labels: list[list[str]]) -> None:
        """Let the model learn texts with the names or URIs of their labels, and use the new one.

        Status 503 if it is learning already or that fails, 400 if the model refuses the texts.
        """
        busy = HTTPException(503, "the model is learning; try again later", {"Retry-After": "10"})
        if not self._learning.acquire(blocking=False):
            raise busy
        try:
            model = learn(self.model or self.path, texts, labels=labels)
            with self._reloading:
                if self.model is not None:
                    # What is in memory need not be read again.
                    self.model, self._stamp = model, self._current_stamp()
        except ModelInUseError:
            raise busy from None
        except (SettingsError, UsageError) as error:
            raise HTTPException(400, self._without_path(error)) from None
        except (XmlgpError, OSError, MemoryError) as error:
            log.error("%s: learning failed: %s", self.path, error)
            raise HTTPException(503, "learning failed; the log of the server has the details") from None
        finally:
            self._learning.release()
        self.reload()

    def describe(self, learns: bool) -> dict[str, Any]:
        """Return the project as Annif describes one, and what a client needs to know of this server."""
        model = self.model
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
            "modification_time": self._modified(),
            "learns": learns,
            "explains": self._explains,
        }

    def _modified(self) -> str | None:
        """Return when the model was written, as ISO 8601 has it."""
        if self._stamp is None:
            return None
        return datetime.datetime.fromtimestamp(self._stamp[0] / 1e9, datetime.timezone.utc).isoformat()

    def _current_stamp(self) -> tuple[int, int, int] | None:
        """Return the stamp of the model that is in the folder now; None if there is none."""
        try:
            status = os.stat(self.path / DESCRIPTION)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _without_path(self, error: Exception) -> str:
        """Return what an error says, for clients: not where the model is, nor which command would help."""
        text = str(error).partition(": `xmlgp")[0]
        for path in (os.path.abspath(self.path), os.fspath(self.path)):
            text = text.replace(path, self.id)
        return text


def _suggest(model: TrainedModel, texts: Sequence[str], parameters: Parameters) -> Suggestions:
    """Return the suggestions of a model for texts: what `xmlgp predict` finds, in the form of Annif's answers."""
    limit = parameters.limit
    if limit == 0 or not texts:
        return [[] for _ in texts]
    options: dict[str, Any] = {"assign": True} if parameters.assign else {"k": limit}
    options["explain"] = parameters.explain or None
    found = predict(model, texts, output="probability", with_std=True, **options)
    return [
        [_in_form(label) for label in point["labels"][:limit] if label["probability"] >= parameters.threshold]
        for point in found
    ]


def _in_form(label: dict[str, Any]) -> dict[str, Any]:
    # A label that has no URI is identified by its name.
    uri = label.pop("uri", None) or label["label"]
    name = label.pop("label")
    return {"uri": uri, "label": name, "notation": None, "score": label["probability"]} | label
