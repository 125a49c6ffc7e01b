"""Give every test the same surroundings, however the suite is started and whatever the user's shell sets."""

import os
import signal

import pytest
import scipy.linalg  # noqa: F401 -- loads its BLAS library before the limit is set
from threadpoolctl import threadpool_limits

#: Signals that `nohup`, a script (`pytest &`) or a service manager makes the processes that they start ignore.
OFTEN_IGNORED = [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM]

#: Variables that change what commands read or print.
USER_VARIABLES = ("XMLGP_CACHE_DIR", "XMLGP_CATALOGUE", "COLUMNS", "PYTHONWARNINGS")


def _stay_alive(number, frame):
    """Do nothing."""


def _reset_signals():
    """Let the tests, and the processes that they start, receive signals.

    exec resets a signal with a handler to its default but leaves an ignored one ignored. A handler that does nothing
    therefore keeps the suite alive as its user wishes, and gives its child processes the default.
    """
    for number in OFTEN_IGNORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _stay_alive)
    # With SIGCHLD ignored the exit status of child processes is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


_reset_signals()
for _name in USER_VARIABLES:
    os.environ.pop(_name, None)
os.umask(0o022)


def pytest_make_parametrize_id(config, val, argname):
    """Name archives by their parameter: they contain the time, and all workers must agree on the names."""
    return argname if isinstance(val, bytes) and val.startswith((b"\x1f\x8b", b"PK")) else None


@pytest.fixture(scope="session", autouse=True)
def _surroundings(tmp_path_factory):
    """Keep the user's cache out of the tests, and do not wait for the disk: no test is about a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMLGP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Keep the idle threads of two BLAS libraries from spinning: the matrices of tests are small."""
    with threadpool_limits(1, user_api="blas"):
        yield
