"""Which library computes with how many threads, seen from outside by threadpoolctl."""

import builtins
import io
import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from xmlgp import threads
from xmlgp.threads import one_pool, prefer_wide_kernels


def pools():
    """Threads of SciPy's BLAS libraries and of all others."""
    blas = [info for info in threadpool_info() if info["user_api"] == "blas"]
    scipys = [info["num_threads"] for info in blas if "scipy" in os.path.basename(os.path.dirname(info["filepath"]))]
    others = [
        info["num_threads"] for info in blas if "scipy" not in os.path.basename(os.path.dirname(info["filepath"]))
    ]
    return scipys, others


@pytest.fixture
def two_threads():
    import scipy.linalg  # noqa: F401 -- loads its library

    with threadpool_limits(2, user_api="blas"):
        scipys, others = pools()
        if not scipys or not others or {*scipys, *others} != {2}:
            pytest.skip("NumPy and SciPy share a BLAS library here, or have one thread")
        yield


@pytest.mark.usefixtures("two_threads")
def test_one_pool_holds_scipy_alone_at_one_thread_and_lets_go():
    with one_pool():
        scipys, others = pools()
        assert set(scipys) == {1}
        assert set(others) == {2}
        with one_pool():
            assert set(pools()[0]) == {1}
        assert set(pools()[0]) == {1}
    assert {*pools()[0], *pools()[1]} == {2}


@pytest.mark.usefixtures("two_threads")
def test_one_pool_lets_go_after_an_error():
    with pytest.raises(KeyError), one_pool():
        raise KeyError
    assert set(pools()[0]) == {2}


@pytest.mark.parametrize("folders", [[], ["numpy.libs"], ["scipy.libs"]])
def test_one_pool_leaves_a_library_alone_that_numpy_uses_too(monkeypatch, folders):
    class Controller:
        def info(self):
            return [{"user_api": "blas", "filepath": f"/lib/site-packages/{folder}/blas.so"} for folder in folders]

        def select(self, filepath):
            assert not filepath
            return self

        def limit(self, limits):
            return threadpool_limits(limits=None)

    monkeypatch.setattr(threads, "ThreadpoolController", Controller)
    with one_pool():
        pass


def core_type(monkeypatch, cpuinfo, **environment):
    """What prefer_wide_kernels makes of the environment on a processor."""

    def fake_open(path, *arguments, **options):
        if path != "/proc/cpuinfo":
            return original(path, *arguments, **options)
        if cpuinfo is None:
            raise FileNotFoundError(path)
        return io.StringIO(cpuinfo)

    original = builtins.open
    monkeypatch.setattr(builtins, "open", fake_open)
    monkeypatch.setattr(os, "environ", environment)
    prefer_wide_kernels()
    return environment.get("OPENBLAS_CORETYPE")


NEW = "processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\nbugs\t:\n"


def test_wide_kernels_are_preferred_where_the_processor_has_them(monkeypatch):
    assert core_type(monkeypatch, NEW) == "Cooperlake"


@pytest.mark.parametrize("cpuinfo", [None, "", "flags\t: fpu avx2 avx512f\n", "Features: bf16\n"])
def test_other_processors_are_left_to_openblas(monkeypatch, cpuinfo):
    assert core_type(monkeypatch, cpuinfo) is None


def test_a_choice_of_the_users_stands(monkeypatch):
    assert core_type(monkeypatch, NEW, OPENBLAS_CORETYPE="Haswell") == "Haswell"


def test_the_command_line_chooses_before_numpy_is_loaded():
    code = "import sys, xmlgp.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_threads_of_its_own():
    program = """if True:
        import os
        from xmlgp.threads import in_parts
        done = []
        in_parts(lambda start, stop: done.append((start, stop)), 100, 10)
        child = os.fork()
        if not child:
            in_parts(lambda start, stop: done.append((start, stop)), 100, 10)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
