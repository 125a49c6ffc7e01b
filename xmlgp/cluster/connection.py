"""Connect to a Dask cluster, or start one of local processes."""

import contextlib
import shutil
import signal
import tempfile
import time
from multiprocessing import resource_tracker

from xmlgp.data.cache import cache_root
from xmlgp.errors import ClusterError
from xmlgp.runtime.threads import core_count

__all__ = ["open_cluster"]

#: Folders of runs that are older than this were left by killed processes.
UNUSED_SECONDS = 30 * 24 * 60 * 60

#: Bytes up to which processes keep memory that they have freed: large temporary arrays are made again and again.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 27, "MALLOC_MMAP_THRESHOLD_": 1 << 25}

#: Seconds until a scheduler must have answered.
CONNECT_SECONDS = 10


@contextlib.contextmanager
def open_cluster(scheduler=None, workers=None, client=None):
    """Yield a `Cluster`, or None if no argument asks for one. Only then is Dask imported.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running scheduler, such as `tcp://HOST:8786`.
    workers : int, optional
        Processes of a cluster on this machine, which share its cores.
    client : distributed.Client, optional
        Of a running cluster; it stays open.

    Raises
    ------
    ClusterError
        If Dask is not installed, the scheduler does not answer, the client is closed, or a worker cannot be used.
    OSError
        If the folder of the run cannot be written.
    """
    if scheduler is None and workers is None and client is None:
        yield None
        return
    try:
        import dask
        import distributed

        from xmlgp.cluster.client import connect
        from xmlgp.cluster.cluster import Cluster
    except ModuleNotFoundError as error:
        raise ClusterError(f"{error.name} is not installed; install it with `pip install 'xmlgp[dask]'`") from error
    if client is not None and not isinstance(client, distributed.Client):
        raise TypeError(f"client is a {type(client).__name__}, but must be a distributed.Client")
    if client is not None and client.scheduler is None:
        raise ClusterError("the client of the Dask cluster is closed")
    with contextlib.ExitStack() as stack:
        # First, so that it is removed after the processes that write to it have ended.
        work = stack.enter_context(_work_folder())
        if workers is not None:
            threads = max(1, core_count() // workers)
            with dask.config.set(_settings(dask)), _interrupts_kept_from_processes():
                local = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=threads, dashboard_address=":0", silence_logs=50
                    )
                )
            address, security = local.scheduler_address, None
        elif client is not None:
            address, security = client.scheduler.address, client.security
        else:
            address, security = scheduler, None
        own = connect(address, security, CONNECT_SECONDS)
        stack.callback(_close, own)
        yield Cluster(own, work)


def _settings(dask):
    """Return the settings of Dask for processes of a local cluster."""
    # Dask tells its processes to return memory at once, which took 1.7 times the processor time of a step.
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ")) | MALLOC
    return {"distributed.nanny.pre-spawn-environ": environment, "distributed.worker.profile.enabled": False}


@contextlib.contextmanager
def _interrupts_kept_from_processes():
    """Keep Ctrl-C from processes that are started in the block; here it takes effect at the end of the block.

    A terminal sends it to them as well. Those that are starting would print tracebacks; this process ends them all.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    # Its start would unblock the signal again.
    resource_tracker.ensure_running()
    # Threads and processes inherit the mask: also those by which Dask replaces a lost worker.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(client):
    # What is lost cannot be told.
    with contextlib.suppress(Exception):
        client.close(timeout=2)


@contextlib.contextmanager
def _work_folder():
    """Yield a new folder for the files of a run in the cache folder, which all machines see; remove it at the end."""
    from pathlib import Path

    root = cache_root() / "cluster"
    root.mkdir(parents=True, exist_ok=True)
    for entry in root.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(entry)
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
