"""Learning on from requests, in a process of its own: the server goes on answering, and what it uses is freed."""

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from xmlgp.errors import ModelInUseError, SettingsError, UsageError, XmlgpError
from xmlgp.runs.learn import learn
from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.runtime.processes import end_with_parent
from xmlgp.serving.problems import Problem, Unavailable

__all__ = ["Learner"]

#: Seconds after which learning is given up, and between attempts while another process is writing the model.
LONGEST, PAUSE = 600, 0.2

#: A terminal or a service manager sends them to all processes; the server decides when a learner ends.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Why nothing more is learned.
ENDING = "the server is ending"

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
        self._processes = set()
        self._closed = False

    async def learn(self, path, texts, labels):
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

    def _run(self, path, texts, labels):
        connection, process = self._start(path)
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
            raise Unavailable("learning failed; the log of the server has the details") from None
        finally:
            timer.cancel()
            process.kill()
            process.join()
            with self._lock:
                self._processes.discard(process)
            connection.close()
        if kind == "refused":
            raise Problem(400, text)
        if kind == "failed":
            log.error("%s", text)
            raise Unavailable(text)

    def _start(self, path):
        """Start a process that learns what it is sent; return the connection to it, and the process."""
        context = multiprocessing.get_context("spawn")
        connection, other = context.Pipe()
        process = context.Process(target=_learn, args=(path, self._patience, other), daemon=True)
        with self._lock:
            if self._closed:
                raise Unavailable(ENDING)
            # A signal that comes while it starts waits until it is ignored.
            with interrupts_kept_from_processes(SIGNALS):
                process.start()
            self._processes.add(process)
        # What is sent to a process that has ended fails only if nothing else has its end.
        other.close()
        return connection, process


def _learn(path, patience, connection):
    """Learn the texts that are sent; send how that ended, and what is wrong if it did not succeed."""
    end_with_parent()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    texts, labels = connection.recv()
    deadline = time.monotonic() + patience
    while True:
        try:
            # Without checkpoints: what is left of an interrupted run would have to be resumed by hand.
            learn(path, texts, labels=labels, checkpoint_seconds=0)
        except ModelInUseError as error:
            if time.monotonic() < deadline:
                time.sleep(PAUSE)
                continue
            answer = "failed", str(error)
        except (SettingsError, UsageError) as error:
            # Where the model is, and which command would force it, is not for clients.
            answer = "refused", str(error).removeprefix(f"{path}: ").partition(": `xmlgp")[0]
        except (XmlgpError, OSError, MemoryError) as error:
            answer = "failed", f"learning failed: {error}"
        else:
            answer = "learned", ""
        # The server may have ended meanwhile.
        with contextlib.suppress(OSError):
            connection.send(answer)
        return
