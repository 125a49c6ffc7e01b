"""Blocks of work on a Dask cluster; only code that has a `DaskCluster` imports Dask."""

from __future__ import annotations

import collections
import contextlib
import itertools
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import distributed
from numpy.typing import DTypeLike, NDArray

from xmlgp.cluster.files import StoredMatrices, array_in_file, pack, unpack
from xmlgp.runtime.errors import ClusterError
from xmlgp.runtime.executor import prepare_shared
from xmlgp.runtime.interrupts import uninterruptible
from xmlgp.runtime.threads import one_blas_thread, single_thread
from xmlgp.version import __version__

__all__ = ["DaskCluster"]

T = TypeVar("T")

#: The packed result of a block and None, or None and the error of its function.
Packed: TypeAlias = tuple[object, Exception | None]

#: Blocks for each thread of the cluster that are with Dask, or finished and not yet taken: memory stays bounded.
AHEAD = 4

#: Times that Dask runs a block again whose files could not be read or written.
RETRIES = 2

#: Seconds from one look at the cluster to the next.
LOOK_SECONDS = 3.0

#: Seconds until the cluster must answer a question.
ANSWER_SECONDS = 15.0

#: Seconds that the cluster may be without its scheduler or without workers while no block is finished.
PATIENCE_SECONDS = 30.0


class DaskCluster:
    """The workers of a Dask cluster, each of which computes as many blocks at a time as it has threads.

    Dask chooses the worker of a block, and runs it again elsewhere if the worker is lost before the result is here.
    `folder` (Path) is on storage that all workers see; `workers` is the largest number of them that has been seen.
    ClusterError is raised if there is none, or one that cannot be used.
    """

    is_cluster = True
    cores = 1

    def __init__(self, client: distributed.Client, folder: Path) -> None:
        self._client = client
        self._scheduler: Any = client.scheduler
        self._folder = folder
        self.workers = 0
        self._threads = 0
        #: The matrices that all calls share, in files until the end of the run.
        self._matrices = StoredMatrices(folder)
        #: When the cluster was looked at, and when it answered that it had workers, for the last time.
        self._looked = self._staffed = time.monotonic()
        began = self._looked
        while not self._threads:
            self._look(began)
            time.sleep(0.1)

    @property
    def dashboard(self) -> str:
        """The address of the dashboard; empty if there is none."""
        with contextlib.suppress(Exception):
            return str(self._client.dashboard_link)
        return ""

    def _new_folder(self) -> Path:
        """Return a new folder on the shared storage, removed at the end of the run."""
        folder = self._folder / secrets.token_hex(8)
        folder.mkdir()
        return folder

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array in a file on the shared storage, to be filled with results."""
        return array_in_file(self._folder, shape, dtype)

    def map(
        self, function: Callable[..., T], blocks: Iterable[tuple[object, ...]], shared: object = None
    ) -> Generator[T, None, None]:
        """Yield `function(shared, *block)` for every block, in order; see `Executor.map`.

        ClusterError is raised if the scheduler or all workers are lost, or a worker cannot use the files; an error of
        the function is raised as it is.
        """
        blocks = iter(blocks)
        futures: collections.deque[distributed.Future[Packed]] = collections.deque()
        folder = self._new_folder()
        try:
            packed = pack(shared, folder, self._matrices)
            while True:
                count = AHEAD * max(1, self._threads) - len(futures)
                for block in itertools.islice(blocks, max(0, count)):
                    futures.append(self._submit(function, folder, packed, pack(block, folder)))
                if not futures:
                    return
                result = self._result(futures[0])
                futures.popleft()
                yield unpack(result)
        finally:
            with contextlib.suppress(Exception), uninterruptible:
                self._ask(self._client.cancel, list(futures), force=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _submit(
        self, function: Callable[..., object], folder: Path, shared: object, block: object
    ) -> distributed.Future[Packed]:
        key = f"{function.__name__.strip('_')}-{secrets.token_hex(8)}"
        try:
            with uninterruptible:
                return self._client.submit(
                    _run, __version__, function, folder, shared, block, key=key, pure=False, retries=RETRIES
                )
        except Exception as error:
            if self._client.status == "running":
                raise
            raise self._scheduler_lost() from error

    def _result(self, future: distributed.Future[Packed]) -> object:
        """Return the packed result of a block, or raise its error."""
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
            except (ImportError, AttributeError) as missing:
                raise ClusterError(f"a worker of the Dask cluster lacks xmlgp {__version__}: {missing}") from missing
        if error is not None:
            raise error
        return result

    def _ask(self, method: Callable[..., object], *arguments: object, **options: object) -> dict[str, Any]:
        """Return the answer of a method of the client; raise an error if it is late."""
        answer: dict[str, Any] = self._client.sync(method, *arguments, callback_timeout=ANSWER_SECONDS, **options)
        return answer

    def _look(self, since: float) -> None:
        """See which workers there are; raise ClusterError if what was waited for since then will not come."""
        if self._client.status in ("closed", "closing"):
            raise self._scheduler_lost()
        workers = None
        with contextlib.suppress(OSError, RuntimeError, ValueError, distributed.TimeoutError):
            workers = self._ask(self._scheduler.identity)["workers"]
        now = self._looked = time.monotonic()
        if workers:
            self._staffed = now
            self.workers = max(self.workers, len(workers))
            self._threads = sum(worker["nthreads"] for worker in workers.values())
        elif now - max(since, self._staffed) > PATIENCE_SECONDS:
            if workers is None:
                raise self._scheduler_lost()
            lost = "all workers of the Dask cluster are lost"
            raise ClusterError(lost if self.workers else "the Dask cluster has no worker")

    def _scheduler_lost(self) -> ClusterError:
        return ClusterError(f"the Dask scheduler at {self._scheduler.address} is lost")


# ---- On the workers


class _StorageError(Exception):
    """A file that a worker cannot read or write; Dask runs the block again, perhaps elsewhere."""


class _shared:
    lock = threading.Lock()
    #: What the blocks of one `map` share, by its folder: of the latest one only.
    values: dict[Path, object] = {}


def _run(version: str, function: Callable[..., object], folder: Path, shared: object, block: object) -> Packed:
    """Return the packed result of `function(shared, *block)` and None, or None and its error.

    Other errors are returned because Dask would log those of a user with their tracebacks.
    """
    worker = f"worker {distributed.get_worker().address} of the Dask cluster"
    if version != __version__:
        return None, ClusterError(f"{worker} has xmlgp {__version__}, but this is xmlgp {version}")
    try:
        with single_thread(), one_blas_thread():
            with _shared.lock:
                if folder not in _shared.values:
                    _shared.values.clear()
                    _shared.values[folder] = prepare_shared(unpack(shared))
                value = _shared.values[folder]
            return pack(function(value, *unpack(block)), folder, passing=True), None
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise _StorageError(f"{worker} cannot use the shared storage: {reason}") from None
    except Exception as error:
        return None, error
