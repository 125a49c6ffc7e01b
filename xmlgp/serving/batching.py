"""The queue of a worker: requests that wait together are scored together, on a thread of their own."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from xmlgp.errors import XmlgpError
from xmlgp.runs.trained_model import TrainedModel
from xmlgp.runtime.threads import limit_threads
from xmlgp.serving.problems import FAILED, Problem, Unavailable
from xmlgp.serving.requests import Parameters
from xmlgp.serving.suggestions import Suggestions, suggest

__all__ = ["Queue"]

#: Texts that are scored together, and their characters: so many take a fraction of a second.
TEXTS = 128
CHARACTERS = 1 << 20

log = logging.getLogger(__name__)


class _Request(NamedTuple):
    model: TrainedModel
    texts: list[str]
    parameters: Parameters
    answer: asyncio.Future[Suggestions]

    @property
    def key(self) -> tuple[int, Parameters]:
        """What requests that are scored together have in common."""
        return id(self.model), self.parameters


class Queue:
    """Texts that wait for their suggestions, at most `longest`; none is waited for longer than some seconds.

    `observe` is called with the number of texts of each batch.
    """

    def __init__(
        self,
        longest: int,
        seconds: float,
        threads: int | None = None,
        observe: Callable[[float], object] = lambda count: None,
    ) -> None:
        self._longest = longest
        self._seconds = seconds
        self._threads = threads
        self._observe = observe
        self._waiting: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self.length = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="xmlgp-score")

    async def suggest(self, model: TrainedModel, texts: list[str], parameters: Parameters) -> Suggestions:
        """Return the suggestions for texts, as `suggestions.suggest` does.

        Problem 503 if too many texts are waiting or it takes too long, 400 if the model refuses the parameters.
        """
        if self.length and self.length + len(texts) > self._longest:
            raise Unavailable("the server is busy; try again later")
        request = _Request(model, texts, parameters, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self.length += len(texts)
        self._arrived.set()
        try:
            return await asyncio.wait_for(request.answer, self._seconds)
        except asyncio.TimeoutError:
            raise Unavailable(f"there was no answer within {self._seconds:g} seconds; try again later") from None
        finally:
            self.length -= len(texts)

    async def run(self) -> None:
        """Score what waits, until the task is cancelled."""
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if batch:
                await self._answer(batch)
            else:
                self._arrived.clear()

    def close(self) -> None:
        """End the thread that scores, after what it is doing."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _next_batch(self) -> list[_Request]:
        """Return requests that can be scored together, in the order of their arrival; other requests stay."""
        batch: list[_Request] = []
        texts = 0
        characters = 0
        different: deque[_Request] = deque()
        while self._waiting and texts < TEXTS and characters < CHARACTERS:
            request = self._waiting.popleft()
            # Whoever asked may have gone.
            if request.answer.done():
                continue
            if batch and request.key != batch[0].key:
                different.append(request)
                continue
            batch.append(request)
            texts += len(request.texts)
            characters += sum(map(len, request.texts))
        self._waiting.extendleft(reversed(different))
        return batch

    async def _answer(self, batch: list[_Request]) -> None:
        texts = [text for request in batch for text in request.texts]
        arguments = batch[0].model, texts, batch[0].parameters
        try:
            loop = asyncio.get_running_loop()
            suggestions = iter(await loop.run_in_executor(self._executor, self._suggest, *arguments))
        except Exception as error:
            if len(batch) == 1:
                if not batch[0].answer.done():
                    batch[0].answer.set_exception(_problem_of(error))
                return
            # One of them caused it.
            for request in batch:
                await self._answer([request])
            return
        self._observe(len(texts))
        for request in batch:
            results = list(itertools.islice(suggestions, len(request.texts)))
            if not request.answer.done():
                request.answer.set_result(results)

    def _suggest(self, model: TrainedModel, texts: list[str], parameters: Parameters) -> Suggestions:
        with limit_threads(self._threads):
            return suggest(model, texts, parameters)


def _problem_of(error: Exception) -> Problem:
    """Return what a client is told."""
    if isinstance(error, XmlgpError):
        return Problem(400, str(error))
    if isinstance(error, MemoryError):
        return Unavailable("the server has not enough memory for this request")
    log.error("suggesting failed", exc_info=error)
    return Problem(500, FAILED)
