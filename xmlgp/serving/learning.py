"""Learning on from requests, in a process of its own: the server goes on answering, and what it uses is freed."""

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import time

from xmlgp.errors import ModelInUseError, SettingsError, UsageError, XmlgpError
from xmlgp.runs.learn import learn
from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.serving.problems import Problem, Unavailable

__all__ = ["Learner"]

#: Seconds after which learning is given up, and between attempts while another process is writing the model.
LONGEST, PAUSE = 600, 0.2

log = logging.getLogger(__name__)


class Learner:
    """Lets the models in folders learn texts; each is replaced at the end. It waits some seconds for other writers."""

    def __init__(self, patience):
        self._patience, self._processes = patience, set()

    async def learn(self, path, texts, labels):
        """Let a model learn texts with the names or URIs of their labels.

        Problem 503 if another process goes on writing the model, or learning fails; 400 if the model refuses the
        documents.
        """
        # A process that is started is not abandoned with the request: what is learned is learned.
        await asyncio.shield(asyncio.to_thread(self._run, path, texts, labels))

    def close(self):
        """End what is learning; the models stay as they are."""
        for process in list(self._processes):
            process.kill()

    def _run(self, path, texts, labels):
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        # It ends with this process.
        process = context.Process(target=_learn, args=(path, texts, labels, self._patience, sender), daemon=True)
        # A terminal or a service manager sends them to all processes; the server decides when this one ends.
        with interrupts_kept_from_processes([signal.SIGINT, signal.SIGTERM]):
            process.start()
        self._processes.add(process)
        sender.close()
        try:
            if not receiver.poll(LONGEST):
                log.error("%s: learning was given up after %d seconds", path, LONGEST)
                raise Unavailable(f"learning took more than {LONGEST} seconds and was given up")
            kind, text = receiver.recv()
        except EOFError:
            log.error("%s: the process that was learning ended without an answer", path)
            raise Unavailable("learning failed; the log of the server has the details") from None
        finally:
            process.kill()
            process.join()
            self._processes.discard(process)
            receiver.close()
        if kind == "refused":
            raise Problem(400, text)
        if kind == "failed":
            log.error("%s", text)
            raise Unavailable(text)


def _learn(path, texts, labels, patience, sender):
    """Send how learning ended, and what is wrong if it did not succeed."""
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
            sender.send(answer)
        return
