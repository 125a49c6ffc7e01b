"""How linear algebra uses the processor's cores.

NumPy and SciPy each bring an OpenBLAS with threads of its own. Used in turn, the idle threads of one spin
against the busy ones of the other: a training step took 2.7 times as long. So the products go to NumPy's,
on all cores, and SciPy's, which factorises, is held at one thread.
"""

import contextlib
import os

from threadpoolctl import ThreadpoolController

__all__ = ["one_pool", "prefer_wide_kernels"]


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
