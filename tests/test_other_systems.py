"""Commands work where what only POSIX or Linux has is missing, as on Windows and macOS.

The suite runs on Linux, so it starts processes without that. They import the packages of others first, which have code
of their own for other systems.
"""

import importlib.util
import pkgutil
import subprocess
import sys

import pytest

import xmlgp

#: Imported before anything is missing.
PACKAGES = (
    "asyncio", "click", "concurrent.futures.thread", "dask", "distributed", "filelock", "h11", "jinja2",
    "multiprocessing", "multiprocessing.resource_tracker", "numba", "numba.core.caching", "pooch", "prometheus_client",
    "requests", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special", "shutil", "sklearn", "sqlite3",
    "starlette", "subprocess", "tempfile", "threadpoolctl", "tqdm", "uvicorn", "yaml",
)  # fmt: skip

#: Modules, and names in modules, that Windows or macOS lacks. The flags of os.open stay, because filelock needs them;
#: `make lint` finds where xmlgp uses them, by the types of Windows.
MISSING = {
    "win32": (
        ("curses", "fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"),
        {
            "os": (
                "chown", "fork", "getegid", "geteuid", "getgid",
                "getloadavg", "getuid", "killpg", "mkfifo", "posix_fadvise", "pread", "pwrite", "register_at_fork",
                "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname",
            ),
            "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "pthread_sigmask", "setitimer"),
            "socket": ("AF_UNIX", "SO_REUSEPORT", "TCP_USER_TIMEOUT", "socketpair"),
            "time": ("tzset",),
        },
    ),
    "darwin": ((), {"os": ("posix_fadvise", "sched_getaffinity"), "socket": ("TCP_USER_TIMEOUT",)}),
}  # fmt: skip

START = """
import contextlib, importlib, os, shutil, sys

for package in {packages}:
    importlib.import_module(package)
shutil._use_fd_functions = False  # of os.open, which Windows does not have
for module in {modules}:
    sys.modules[module] = None
for module, names in {names}.items():
    for name in names:
        with contextlib.suppress(AttributeError):
            delattr(importlib.import_module(module), name)
sys.platform = {platform!r}


def xmlgp(command):
    from xmlgp.cli import main

    try:
        main(command.split(), prog_name="xmlgp")
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""

TRAIN = """
xmlgp("fetch toy")
xmlgp("train data/toy models/toy --epochs 2")
xmlgp("train data/toy models/toy --epochs 1 --overwrite")
xmlgp("predict models/toy data/toy/test.txt -k 5 -o toy.scores")
xmlgp("evaluate toy.scores data/toy/test.txt --train data/toy/train.txt")
xmlgp("tune models/toy data/toy/test.txt")
xmlgp("show models/toy")
"""

TEXT = """
xmlgp("fetch tickets")
xmlgp("train data/tickets models/tickets --epochs 2")
xmlgp("learn models/tickets data/tickets/test.csv")
xmlgp("predict models/tickets data/tickets/test.csv -k 1 -o tickets.jsonl")
xmlgp("report models/tickets data/tickets -o report.html")
"""

LISTEN = """
from xmlgp.serving.server import _allow_connections, _listen
from xmlgp.serving.connections import connection_limit

assert _allow_connections() > 1000
assert connection_limit(100) > 100
with _listen("127.0.0.1", 0) as listening:
    print(listening.getsockname())
"""


def run(platform, code, folder):
    """Run code in a process that lacks what a system does not have; return what it prints."""
    modules, names = MISSING[platform]
    packages = [name for name in PACKAGES if importlib.util.find_spec(name)]
    start = START.format(packages=packages, modules=modules, names=names, platform=platform)
    command = [sys.executable, "-c", start + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("platform", MISSING)
def test_what_is_missing_is_missing(platform, tmp_path):
    assert run(platform, 'print(sys.platform, hasattr(os, "sched_getaffinity"))', tmp_path) == f"{platform} False\n"


@pytest.mark.parametrize("platform", MISSING)
def test_every_module_can_be_imported(platform, tmp_path):
    modules = [
        module.name for module in pkgutil.walk_packages(xmlgp.__path__, "xmlgp.") if "__main__" not in module.name
    ]
    assert len(modules) > 100
    run(platform, f"for module in {modules}:\n    importlib.import_module(module)\n", tmp_path)


@pytest.mark.parametrize(("platform", "code"), [("win32", TRAIN), ("win32", TEXT), ("darwin", TRAIN)])
def test_commands_work(platform, code, tmp_path):
    run(platform, code, tmp_path)
    # Locks and temporary files are gone.
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("platform", MISSING)
def test_a_server_can_listen(platform, tmp_path):
    pytest.importorskip("starlette", reason="the server is not installed: pip install '.[serve]'")
    assert "127.0.0.1" in run(platform, LISTEN, tmp_path)
