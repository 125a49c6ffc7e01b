"""How computation uses the processor's cores: BLAS on one thread, and the work split among threads of our own.

NumPy and SciPy each bring an OpenBLAS whose threads wait for each other by spinning. The idle threads of one spin
against the busy ones of the other, which made a training step take 2.7 times as long; beside other work on the same
machine every product takes several times as long. Threads of our own sleep while they wait, and share out the work
that is not BLAS's as well.
"""

import contextlib
import contextvars
import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait

from threadpoolctl import ThreadpoolController

from xmlgp.runtime.interrupts import undivided

__all__ = ["begin", "core_count", "in_parts", "one_blas_thread", "parts", "prefer_wide_kernels", "run"]


def run(tasks):
    """Call every task, on all cores at once; return when all are done.

    The cores take the tasks in their order, each the next one when it has done its last. A task that calls `run`
    itself, or `in_parts`, does that part alone.

    Parameters
    ----------
    tasks : iterable of callable
        What one does must not depend on which of the others are done.
    """
    with undivided:
        _run(list(tasks))


def _run(tasks):
    helpers = 0 if getattr(_inside, "task", False) else min(core_count(), len(tasks)) - 1
    # The next element of a list iterator is taken in one piece, whatever other threads do.
    remaining = iter(tasks)
    others = [_submit(_work, remaining) for _ in range(helpers)]
    try:
        _work(remaining)
    finally:
        # A thread that is busy with what was begun before is not waited for.
        others = [other for other in others if other is not None and not other.cancel()]
        try:
            wait(others)
        except BaseException:
            # Interrupted: what is under way still writes into the caller's arrays.
            wait(others)
            raise
        failures = [other.exception() for other in others]
    for failure in failures:
        if failure is not None:
            raise failure


def begin(task):
    """Have a task done beside what the caller does next; return what gives its result, a callable.

    Parameters
    ----------
    task : callable
    """
    outcome = []

    def work():
        _work(iter([lambda: outcome.append(task())]))
        return outcome[0]

    alone = core_count() == 1 or getattr(_inside, "task", False)
    with undivided:
        future = None if alone else _submit(work)
    if future is not None:
        return future.result
    value = task()
    return lambda: value


def parts(function, total, grain, rounds=1):
    """Return tasks for `run` that call `function(start, stop)` for parts that make up range(total).

    The parts depend on `total` and the number of cores alone, so results do not depend on which thread is faster.

    Parameters
    ----------
    function : callable
    total : int
    grain : int
        Least size of a part that is worth a thread.
    rounds : int
        Parts for each core, where it has something else to do beside them.
    """
    count = max(1, min(rounds * core_count(), total // max(1, grain)))
    bounds = [total * i // count for i in range(count + 1)]
    return [functools.partial(function, *part) for part in zip(bounds, bounds[1:], strict=False)]


def in_parts(function, total, grain):
    """Call `function(start, stop)` for parts that make up range(total), on all cores at once; see `parts`."""
    run(parts(function, total, grain))


_inside = threading.local()


def _work(tasks):
    outer, _inside.task = getattr(_inside, "task", False), True
    try:
        for task in tasks:
            task()
    except BaseException:
        # The others are not begun; those under way end before the caller goes on.
        for _ in tasks:
            pass
        raise
    finally:
        _inside.task = outer


def _submit(function, *args):
    """Give work to a thread; return its future, or None where the interpreter is ending and starts nothing any more."""
    # What is said of warnings where the work is given out holds where it is done.
    try:
        return _pool().submit(contextvars.copy_context().run, function, *args)
    except RuntimeError:
        return None


@functools.cache
def core_count():
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool():
    return ThreadPoolExecutor(max(1, core_count() - 1), thread_name_prefix="xmlgp")


# A child process made by forking has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextlib.contextmanager
def one_blas_thread():
    """Hold every BLAS at one thread within the block, as `run` and `in_parts` need it."""
    import scipy.linalg  # noqa: F401 -- loads SciPy's BLAS, so that it is found

    # The limit is the process's: of several threads the first to come sets it and the last to go lifts it.
    with _limit.lock:
        if not _limit.users:
            libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
            _limit.lifted = [(library, library.get_num_threads()) for library in libraries]
            for library in libraries:
                _set_threads(library, 1)
        _limit.users += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.users -= 1
            if not _limit.users:
                for library, count in _limit.lifted:
                    _set_threads(library, count)


class _limit:
    lock, users, lifted = threading.Lock(), 0, []


def _set_threads(library, count):
    # Some versions of threadpoolctl heed only the first thread that set a limit.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


def prefer_wide_kernels():
    """Let OpenBLAS use its AVX-512 kernels on processors newer than it knows.

    It chooses kernels by the processor's family and falls back to 256-bit ones for a family it has not met,
    which halves the rate of single precision products. Has an effect only before NumPy is imported; a choice
    already made in the environment stands.
    """
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return
    if "avx512_bf16" in flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "Cooperlake")
