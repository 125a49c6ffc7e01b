"""The process that learns. It imports the models only once it is sure to end with the one that started it."""

import contextlib
import signal
import sys
import time
from multiprocessing.connection import Connection

from xmlgp.runtime.processes import end_with_parent

__all__ = ["SIGNALS", "learn_what_is_sent"]

#: A terminal or a service manager sends them to all processes; the server decides when a learner ends.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Seconds between attempts while another process is writing the model.
PAUSE = 0.2


def learn_what_is_sent(path: str, patience: float, connection: Connection) -> None:
    """Let a model learn the texts that are sent; send how that ended, and what is wrong if it did not succeed.

    A model that another process is writing is waited for, for `patience` seconds.
    """
    end_with_parent()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    answer = _learn(path, patience, *connection.recv())
    # The server may have ended meanwhile.
    with contextlib.suppress(OSError):
        connection.send(answer)


def _learn(path: str, patience: float, texts: list[str], labels: list[list[str]]) -> tuple[str, str]:
    # These take a second, for which a process would go on without its parent.
    from xmlgp.errors import ModelInUseError, SettingsError, UsageError, XmlgpError
    from xmlgp.runs.learn import learn

    deadline = time.monotonic() + patience
    while True:
        try:
            learn(path, texts, labels=labels)
        except ModelInUseError as error:
            if time.monotonic() < deadline:
                time.sleep(PAUSE)
                continue
            return "in use", str(error)
        except (SettingsError, UsageError) as error:
            # Where the model is, is not for clients.
            return "refused", str(error).removeprefix(f"{path} ").removeprefix(f"{path}: ")
        except (XmlgpError, OSError, MemoryError) as error:
            return "failed", f"{path}: learning failed: {error}"
        return "learned", ""
