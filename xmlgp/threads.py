"""How linear algebra uses the processor's cores.

NumPy and SciPy each bring an OpenBLAS with threads of its own. Used in turn, the idle threads of one spin
against the busy ones of the other: a training step took 2.7 times as long. So the products go to NumPy's,
on all cores, and SciPy's, which factorises, is held at one thread.
"""

import contextlib
import functools
import os
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import ThreadpoolController

__all__ = ["in_parts", "one_pool", "prefer_wide_kernels"]


def in_parts(function, total, grain):
    """Call `function(start, stop)` for parts that make up range(total), on all cores at once.

    NumPy's elementwise functions let other threads run. The parts depend on `total` and the number of cores alone,
    so results do not depend on which thread is faster.

    Parameters
    ----------
    function : callable
    total : int
    grain : int
        Least size of a part that is worth a thread.
    """
    pool, cores = _pool()
    count = max(1, min(cores, total // grain))
    bounds = [total * i // count for i in range(count + 1)]
    # The calling thread takes the first part itself.
    others = [pool.submit(function, *part) for part in zip(bounds[1:], bounds[2:], strict=False)]
    function(bounds[0], bounds[1])
    for other in others:
        other.result()


@functools.cache
def _pool():
    # A child process made by forking has none of its parent's threads.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(max(1, cores - 1), thread_name_prefix="xmlgp"), cores


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextlib.contextmanager
def one_pool():
    """Hold SciPy's BLAS at one thread within the block, where it is another library than NumPy's."""
    import scipy.linalg  # noqa: F401 -- loads SciPy's BLAS, so that it is found

    controller = ThreadpoolController()
    paths = [info["filepath"] for info in controller.info() if info["user_api"] == "blas"]
    scipys = [path for path in paths if os.sep + "scipy" in path.partition("site-packages")[2]]
    if len(paths) == len(scipys):
        yield
        return
    with controller.select(filepath=scipys).limit(limits=1):
        yield


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
