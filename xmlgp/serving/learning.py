"""Learning on from requests, in a process of its own: the server goes on answering, and what it uses is freed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.serving.learner import SIGNALS, learn_what_is_sent
from xmlgp.serving.problems import Problem, Unavailable

__all__ = ["Learner"]

#: Seconds after which learning is given up.
LONGEST = 600

#: Why nothing more is learned, or nothing now. Where a model is, and who is writing it, is for the log alone.
ENDING = "the server is ending"
IN_USE = "the model is being written by another process; try again later"
FAILED = "learning failed; the log of the server has the details"

log = logging.getLogger(__name__)


class Learner:
    """Lets the models in folders learn texts; each is replaced at the end.

    A model that another process is writing is waited for, for `patience` seconds. At most `models` learn at a time.
    """

    def __init__(self, patience: float, models: int) -> None:
        self._patience = patience
        # Threads of their own: those of the event loop also parse large requests.
        self._threads = ThreadPoolExecutor(models, thread_name_prefix="xmlgp-learn")
        #: Held while a process is started and registered, so that `close` finds all of them.
        self._lock = threading.Lock()
        self._processes: set[SpawnProcess] = set()
        self._closed = False

    async def learn(self, path: str, texts: list[str], labels: list[list[str]]) -> None:
        """Let a model learn texts with the names or URIs of their labels.

        Problem 503 if another process goes on writing the model, or learning fails; 400 if the model refuses the
        documents.
        """
        if self._closed:
            raise Unavailable(ENDING)
        learning = asyncio.get_running_loop().run_in_executor(self._threads, self._run, path, texts, labels)
        # A process that is started is not abandoned with the request: what is learned is learned.
        await asyncio.shield(learning)

    def close(self) -> None:
        """End what is learning, and start nothing more; the models stay as they are."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=False)

    def _run(self, path: str, texts: list[str], labels: list[list[str]]) -> None:
        try:
            connection, process = self._start(path)
        except OSError as error:
            log.error("%s: learning could not start: %s", path, error)
            raise Unavailable(FAILED) from None
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            process.kill()

        timer = threading.Timer(LONGEST, give_up)
        timer.daemon = True
        timer.start()
        try:
            # Not with the start, which waits for ever for a process that ends before it has read more than 64 KB.
            connection.send((texts, labels))
            kind, text = connection.recv()
        except (EOFError, OSError):
            if given_up.is_set():
                log.error("%s: learning was given up after %d seconds", path, LONGEST)
                raise Unavailable(f"learning took more than {LONGEST} seconds and was given up") from None
            log.error("%s: the process that was learning ended without an answer", path)
            raise Unavailable(FAILED) from None
        finally:
            timer.cancel()
            process.kill()
            process.join()
            with self._lock:
                self._processes.discard(process)
            connection.close()
        if kind == "refused":
            raise Problem(400, text)
        if kind != "learned":
            log.error("%s", text)
            raise Unavailable(IN_USE if kind == "in use" else FAILED)

    def _start(self, path: str) -> tuple[Connection, SpawnProcess]:
        """Start a process that learns what it is sent; return the connection to it, and the process."""
        context = multiprocessing.get_context("spawn")
        connection, other = context.Pipe()
        # What is sent to a process that has ended fails only if nothing else has its end.
        with contextlib.closing(other), contextlib.ExitStack() as failed:
            failed.callback(connection.close)
            process = context.Process(target=learn_what_is_sent, args=(path, self._patience, other), daemon=True)
            with self._lock:
                if self._closed:
                    raise Unavailable(ENDING)
                # A signal that comes while it starts waits until it is ignored.
                with interrupts_kept_from_processes(SIGNALS):
                    process.start()
                self._processes.add(process)
            failed.pop_all()
        return connection, process  # type: ignore[return-value, unused-ignore]  # Windows has another class
