"""Blocks of work on a Dask cluster; only code that has a `DaskCluster` imports Dask."""

import collections
import contextlib
import itertools
import secrets
import shutil
import threading
import time
from pathlib import Path

import distributed

from xmlgp.errors import ClusterError
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.threads import one_blas_thread, single_thread
from xmlgp.version import __version__
from xmlgp.work import opened
from xmlgp.work.files import array_in_file, pack, unpack

__all__ = ["DaskCluster"]

#: Blocks for each thread of the cluster that are with Dask, or finished and not yet taken: memory stays bounded.
AHEAD = 4

#: Times that Dask runs a block again whose files could not be read or written.
RETRIES = 2

#: Seconds from one look at the cluster to the next; until it must answer a question; and that it may be without its
#: scheduler, without workers, or with a worker that says nothing while no block is finished.
LOOK_SECONDS = 3.0
ANSWER_SECONDS = 15.0
PATIENCE_SECONDS = 30.0


class DaskCluster:
    """The workers of a Dask cluster, each of which computes as many blocks at a time as it has threads.

    It has the attributes and methods of `ThisMachine`. Dask chooses the worker of a block, and runs it again elsewhere
    if the worker is lost before the result is here. `folder` (Path) is on storage that all workers see; `workers` is
    the largest number of them that has been seen. ClusterError is raised if there is none, or one that cannot be used.
    """

    is_cluster = True
    cores = 1

    def __init__(self, client, folder):
        self._client = client
        self._folder = folder
        self._address = client.scheduler.address
        self.workers = 0
        self._threads = 0
        self._heard = {}
        self._kept = ({}, folder)
        self._answered = self._staffed = self._looked = began = time.monotonic()
        while not self._threads:
            self._look(began)
            time.sleep(0.1)
        self._check_workers()

    @property
    def dashboard(self):
        """The address of the dashboard; empty if there is none."""
        with contextlib.suppress(Exception):
            return self._client.dashboard_link
        return ""

    def new_folder(self):
        """Return a new folder on the shared storage, removed at the end of the run."""
        folder = self._folder / secrets.token_hex(8)
        folder.mkdir()
        return folder

    def empty(self, shape, dtype):
        """Return a new array in a file on the shared storage, to be filled with results."""
        return array_in_file(self._folder, shape, dtype)

    def map(self, function, blocks, shared=None):
        """Yield `function(shared, *block)` for every block, in order; see `ThisMachine.map`.

        ClusterError is raised if the scheduler or all workers are lost, or a worker does not answer or cannot use the
        files; an error of the function is raised as it is.
        """
        blocks = iter(blocks)
        window = collections.deque()
        folder = self.new_folder()
        try:
            # Its matrices are kept until the end of the run, since many calls share them.
            common = __version__, folder.name, pack(shared, folder, self._kept), function
            while True:
                room = AHEAD * max(1, self._threads) - len(window)
                for block in itertools.islice(blocks, max(0, room)):
                    window.append(self._submit(function, *common, pack(block, folder), str(folder)))
                if not window:
                    return
                result = self._result(window[0])
                window.popleft()
                yield result
        finally:
            with contextlib.suppress(Exception), uninterruptible:
                self._ask(self._client.cancel, list(window), force=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _submit(self, function, *arguments):
        key = f"{function.__name__.strip('_')}-{secrets.token_hex(8)}"
        try:
            with uninterruptible:
                return self._client.submit(_run, *arguments, key=key, pure=False, retries=RETRIES)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise self._scheduler_lost() from error

    def _result(self, future):
        """Return the result of a block, or raise its error."""
        since = time.monotonic()
        if since - self._looked > ANSWER_SECONDS:
            self._look(since)
        while True:
            # A fetch that is given up too soon can leave the next one cancelled, so it comes after the wait.
            with contextlib.suppress(distributed.TimeoutError, distributed.CancelledError), self._client.as_current():
                distributed.wait([future], timeout=LOOK_SECONDS)
            if not future.done():
                self._look(since)
                continue
            try:
                # If the worker that has the result is lost, Dask runs the block again.
                result, error = future.result(timeout=ANSWER_SECONDS)
                break
            except distributed.TimeoutError:
                self._look(since)
            except distributed.CancelledError:
                raise self._scheduler_lost() from None
            except distributed.KilledWorker as killed:
                reason = "were lost while they ran the same block; they may need more memory"
                raise ClusterError(f"several workers of the Dask cluster {reason}") from killed
            except _StorageError as failed:
                raise ClusterError(str(failed)) from None
            except (ImportError, AttributeError) as missing:  # on a worker that joined late
                self._check_workers()
                raise ClusterError(f"a worker of the Dask cluster lacks xmlgp {__version__}: {missing}") from missing
        if error is not None:
            raise error
        return unpack(result)

    def _ask(self, method, *arguments, **options):
        """Return the answer of a method of the client; raise an error if it is late."""
        return self._client.sync(method, *arguments, callback_timeout=ANSWER_SECONDS, **options)

    def _look(self, since):
        """See which workers there are; raise ClusterError if what was waited for since then will not come."""
        workers = None
        closed = self._client.status in ("closed", "closing")
        if not closed:
            with contextlib.suppress(OSError, RuntimeError, ValueError, distributed.TimeoutError):
                workers = self._ask(self._client.scheduler.identity)["workers"]
        now = self._looked = time.monotonic()
        if workers is None:
            if closed or now - max(since, self._answered) > PATIENCE_SECONDS:
                raise self._scheduler_lost()
            return
        self._answered = now
        self.workers = max(self.workers, len(workers))
        self._threads = sum(w["nthreads"] for w in workers.values())
        if workers:
            self._staffed = now
        elif now - max(since, self._staffed) > PATIENCE_SECONDS:
            lost = "all workers of the Dask cluster are lost"
            raise ClusterError(lost if self.workers else "the Dask cluster has no worker")
        for address, worker in workers.items():
            # Clocks of machines differ, so the time is when it was found here that the worker had said more.
            last, when = self._heard.get(address, (None, now))
            self._heard[address] = worker["last_seen"], when if last == worker["last_seen"] else now
            if now - max(since, self._heard[address][1]) > PATIENCE_SECONDS:
                raise ClusterError(f"worker {address} of the Dask cluster does not answer; end it and start it again")

    def _check_workers(self):
        """Raise ClusterError if a worker lacks this version of xmlgp."""
        try:
            # Not with a function of xmlgp, which a worker without it could not run.
            code = "__import__('xmlgp').__version__"
            found = self._ask(self._client.run, eval, code, on_error="return", nanny=False)
        except (OSError, ValueError, distributed.TimeoutError):
            return  # a worker is lost or does not answer, as the first block will show
        for address, answer in found.items():
            if answer != __version__ and not isinstance(answer, OSError | None):
                has = f"xmlgp {answer}" if isinstance(answer, str) else f"no xmlgp ({answer})"
                raise ClusterError(f"worker {address} of the Dask cluster has {has}, but this is xmlgp {__version__}")

    def _scheduler_lost(self):
        return ClusterError(f"the Dask scheduler at {self._address} is lost")


# ---- On the workers


class _StorageError(Exception):
    """A file that a worker cannot read or write; Dask runs the block again, perhaps elsewhere."""


class _shared:
    #: What the blocks of one `map` share, by the token of that.
    lock = threading.Lock()
    values = {}


def _run(version, token, shared, function, block, folder):
    """Return the packed result of `function(shared, *block)` and None, or None and its error.

    Other errors are returned because Dask would log those of a user with their tracebacks.
    """
    worker = f"worker {distributed.get_worker().address} of the Dask cluster"
    if version != __version__:
        return None, ClusterError(f"{worker} has xmlgp {__version__}, but this is xmlgp {version}")
    try:
        with single_thread(), one_blas_thread():
            with _shared.lock:
                if token not in _shared.values:
                    _shared.values.clear()
                    _shared.values[token] = opened(unpack(shared))
                value = _shared.values[token]
            return pack(function(value, *unpack(block)), Path(folder), passing=True), None
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise _StorageError(f"{worker} cannot use the shared storage: {reason}") from None
    except Exception as error:
        return None, error
