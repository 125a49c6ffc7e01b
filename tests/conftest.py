"""Give every test the same environment, regardless of how the suite is started and of the user's shell."""

import logging
import os
import signal
import sys

import pytest
import scipy.linalg  # noqa: F401 -- loads its BLAS library before the limit is set
from hypothesis import settings
from threadpoolctl import threadpool_limits

from tests.compiling import compile_once
from tests.leftovers import end_what_is_left, mark_processes

#: Signals that processes ignore if `nohup`, a script (`pytest &`) or a service manager starts them.
OFTEN_IGNORED = [getattr(signal, name) for name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM") if hasattr(signal, name)]

#: Variables that change what commands read or print.
USER_VARIABLES = ("XMLGP_CACHE_DIR", "XMLGP_CATALOGUE", "COLUMNS", "PYTHONWARNINGS")


def _do_nothing(number, frame):
    """Handle a signal by doing nothing."""


def _reset_signals():
    """Let the tests, and the processes that they start, receive signals.

    exec resets a signal with a handler to its default but leaves an ignored one ignored. With a handler that
    does nothing, the suite keeps running as its user wants, and its child processes get the default.
    """
    for number in OFTEN_IGNORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    if sys.platform != "win32":
        # With SIGCHLD ignored the exit status of child processes is lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])


_reset_signals()
# No test is about time: by default hypothesis fails an example that takes 200 ms, as many do on a busy machine.
settings.register_profile("any time", deadline=None, max_examples=40)
settings.load_profile("any time")
for _name in USER_VARIABLES:
    os.environ.pop(_name, None)
os.umask(0o022)


def pytest_addoption(parser):
    parser.addoption("--all-cores", action="store_true", help="compute on all cores, not on one for each process")


def pytest_make_parametrize_id(config, val, argname):
    """Name archives by their parameter: their bytes contain the time, but all workers must agree on the names."""
    return argname if isinstance(val, bytes) and val.startswith((b"\x1f\x8b", b"PK")) else None


def pytest_collection_modifyitems(items):
    """Refuse names with addresses in memory: all processes of a run must agree on the names."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: the name of this test is another one in each process")


def pytest_terminal_summary(terminalreporter, config):
    """Say how to repeat the order of this run; with -q pytest prints no header, where pytest-randomly says it."""
    if (seed := config.getoption("randomly_seed", None)) is not None:
        terminalreporter.write_line(f"random order: --randomly-seed={seed}")


@pytest.fixture(scope="session", autouse=True)
def _nothing_left():
    """Fail if a process that a test started is alive after the last test and the fixtures of the session."""
    mark_processes()
    yield
    left = end_what_is_left()
    assert left == []


@pytest.fixture(scope="session", autouse=True)
def _environment(_nothing_left, tmp_path_factory):
    """Keep the user's cache out of the tests, and do not wait for the disk: no test is about power failures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMLGP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _compile_once(tmp_path_factory):
    """Let the processes of pytest-xdist not compile the same functions at the same time."""
    folder = tmp_path_factory.getbasetemp()
    # The folder of a process is in one of all.
    with compile_once((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "compiling"):
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Keep the idle threads of two BLAS libraries from spinning, here and in new processes: matrices are small."""
    with threadpool_limits(1, user_api="blas"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_core(request):
    """Let this process compute on one core, unless with `--all-cores`: others test beside it.

    Tests of parallel work pretend to have several, and new processes have all.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.option.all_cores:
            patch.setattr("xmlgp.runtime.threads._all_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def cluster(_environment):
    """Return a `DaskCluster` of two processes, which tests must not end."""
    # Not every test needs Dask.
    from xmlgp.cluster.connection import open_executor

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with open_executor(workers=2) as opened:
        yield opened


@pytest.fixture
def in_files(tmp_path, monkeypatch):
    """Return what stands for a cluster in this process (`InFiles`)."""
    from tests.cluster.in_files import InFiles

    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    return InFiles(tmp_path / "cache" / "run")
