"""Parallel computation: BLAS runs on one thread, and a thread pool of our own splits the work among the cores.

NumPy and SciPy each bring an OpenBLAS whose threads spin while they wait. The idle threads of one compete with the busy
threads of the other, which made a training step take 2.7 times as long; with other work on the same machine every
product takes several times as long. The threads of this pool sleep while they wait, and also run code outside BLAS.
"""

import collections
import contextlib
import contextvars
import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from importlib.machinery import PathFinder
from typing import TypeVar

import scipy
from threadpoolctl import LibController, ThreadpoolController

from xmlgp.runtime.interrupts import uninterruptible

__all__ = [
    "start_task",
    "core_count",
    "limit_threads",
    "parallel_for",
    "one_blas_thread",
    "split_range",
    "run_parallel",
    "single_thread",
]

T = TypeVar("T")


def run_parallel(tasks: Iterable[Callable[[], T]]) -> list[T]:
    """Call every task, on all cores at once, and return their results, in the order of the tasks.

    The cores take the tasks in order, each taking the next one when it is free; none may rely on another being done. A
    task that itself calls `run_parallel` or `parallel_for` runs that part on its own core alone.
    """
    tasks = list(tasks)
    cores = min(core_count(), len(tasks))
    if cores == 1:
        with single_thread():
            return [task() for task in tasks]
    # Taking the next element of a list iterator is atomic.
    remaining = iter(list(enumerate(tasks)))
    results: dict[int, T] = {}

    def work() -> None:
        try:
            for position, task in remaining:
                results[position] = task()
        except BaseException:
            collections.deque(remaining, maxlen=0)
            raise

    with uninterruptible:
        others = [_submit(work) for _ in range(cores - 1)]
        try:
            with single_thread():
                work()
        finally:
            # Not those of threads that are busy with earlier tasks. They write into the caller's arrays until they end.
            begun = [other for other in others if not other.cancel()]
            wait(begun)
    for other in begun:
        other.result()
    return [results[position] for position in range(len(tasks))]


def start_task(task: Callable[[], T]) -> Callable[[], T]:
    """Run a task in the background; return a function that waits for it and returns its result."""
    if core_count() == 1:
        return task
    with uninterruptible:
        return _submit(task).result


def split_range(function: Callable[[int, int], T], total: int, grain: int, rounds: int = 1) -> list[Callable[[], T]]:
    """Return tasks for `run_parallel` that call `function(start, stop)` for parts which together make up range(total).

    The parts depend only on the arguments and the number of cores, so results do not depend on which thread is faster.
    `grain` is the smallest part that is worth a thread; `rounds`, the parts per core, is more than one to balance the
    load if the cores have other tasks as well.
    """
    count = max(1, min(rounds * core_count(), total // max(1, grain)))
    bounds = [total * i // count for i in range(count + 1)]
    return [functools.partial(function, *limits) for limits in itertools.pairwise(bounds)]


def parallel_for(function: Callable[[int, int], T], total: int, grain: int) -> list[T]:
    """Call `function(start, stop)` on all cores for parts which together make up range(total); see `split_range`.

    Return the results in the order of the parts.
    """
    return run_parallel(split_range(function, total, grain))


_inside = threading.local()


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Run what `run_parallel` and `parallel_for` would divide on the calling thread alone, within the block."""
    outer = getattr(_inside, "task", False)
    _inside.task = True
    try:
        yield
    finally:
        _inside.task = outer


def _submit(task: Callable[[], T]) -> Future[T]:
    """Let a thread of the pool run a task, on this core alone, and return its future."""

    def work() -> T:
        with single_thread():
            return task()

    # The context carries the caller's error state of NumPy.
    return _pool(core_count()).submit(contextvars.copy_context().run, work)


def core_count() -> int:
    """Return the number of cores that the caller may use: one inside a task or `single_thread`."""
    return 1 if getattr(_inside, "task", False) else _limit_of_threads.get() or _all_cores()


@contextlib.contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Compute with this number of threads within the block, in place of one for each core; None changes nothing.

    The limit holds for the calling thread and what it calls. It may exceed the number of cores: then the results are
    those of a machine with so many cores.

    Parameters
    ----------
    count : int or None
        At least 1.
    """
    if count is None:
        yield
        return
    if count < 1:
        raise ValueError(f"the number of threads is {count}, but must be at least 1")
    token = _limit_of_threads.set(count)
    try:
        with one_blas_thread():
            yield
    finally:
        _limit_of_threads.reset(token)


#: What `limit_threads` set in this thread, or None.
_limit_of_threads = contextvars.ContextVar[int | None]("limit_of_threads", default=None)


@functools.cache
def _all_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool(cores: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cores - 1), thread_name_prefix="xmlgp")


# A forked child has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit every BLAS to one thread within the block, as `run_parallel` and `parallel_for` require.

    The limit holds for the whole process: the first thread to enter sets it, the last to leave lifts it.
    """
    with _limit.lock:
        if not _limit.users:
            _limit.counts = [library.get_num_threads() for library in _blas_libraries()]
            _set_threads([1] * len(_limit.counts))
        _limit.users += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.users -= 1
            if not _limit.users:
                _set_threads(_limit.counts)


class _limit:
    lock = threading.Lock()
    #: Blocks that are in `one_blas_thread` now.
    users = 0
    #: The number of threads of each BLAS outside these blocks.
    counts: list[int] = []


@functools.cache
def _blas_libraries() -> list[LibController]:
    """Return the BLAS of NumPy and that of SciPy; to find them takes some milliseconds."""
    # This module loads the second one. To import scipy.linalg takes almost as long as to import NumPy.
    module = PathFinder.find_spec("cython_blas", [f"{scipy.__path__[0]}/linalg"])
    if module:
        ctypes.CDLL(module.origin)
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(counts: list[int]) -> None:
    for library, count in zip(_blas_libraries(), counts, strict=True):
        # Some versions of threadpoolctl ignore all threads but the first that set a limit.
        getattr(library, "_real_set_num_threads", library.set_num_threads)(count)
