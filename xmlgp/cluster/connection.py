"""Connect to a Dask cluster, or start one of local processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from xmlgp.cluster.cache_folder import folder_for_run
from xmlgp.runtime.errors import ClusterError
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.runtime.threads import core_count

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

__all__ = ["open_executor"]

#: Seconds until a scheduler must have answered.
CONNECT_SECONDS = 10

#: Settings of Dask for local processes: a process that says nothing for so long is replaced.
LOCAL = {"distributed.scheduler.worker-ttl": "10s", "distributed.worker.profile.enabled": False}

#: Bytes of freed memory that a local process keeps. Dask tells it to return them at once, which took 1.7 times the
#: processor time.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 27, "MALLOC_MMAP_THRESHOLD_": 1 << 25}


@contextlib.contextmanager
def open_executor(
    scheduler: str | None = None, workers: int | None = None, client: Client | None = None
) -> Iterator[Executor]:
    """Yield a `DaskCluster`, or `LOCAL_EXECUTOR` if no argument asks for one. Only then is Dask imported.

    The arguments are the address of a scheduler, such as `tcp://HOST:8786`; a number of worker processes to start on
    this machine, which share its cores; and a `distributed.Client`, which stays open. ClusterError is raised if Dask
    is not installed, the scheduler does not answer, the client is closed, or a worker cannot be used.
    """
    if scheduler is None and workers is None and client is None:
        yield LOCAL_EXECUTOR
        return
    try:
        from xmlgp.cluster.cluster import DaskCluster
    except ModuleNotFoundError as error:
        raise ClusterError(f"{error.name} is not installed; install it with `pip install 'xmlgp[dask]'`") from error
    if client is not None and getattr(client, "status", None) != "running":
        raise ClusterError("the client is not a distributed.Client that is open")
    with contextlib.ExitStack() as stack:
        # The folder is opened first, so that it is removed after the processes that write to it have ended.
        folder = stack.enter_context(folder_for_run())
        if workers is not None:
            scheduler = stack.enter_context(_local_cluster(workers)).scheduler_address
        if client is None:
            client = _connect(scheduler)
            stack.callback(_close, client)
        yield DaskCluster(client, folder)


def _local_cluster(workers: int) -> LocalCluster:
    import dask
    from distributed import LocalCluster

    threads = max(1, core_count() // workers)
    environment = {
        "distributed.nanny.pre-spawn-environ": dask.config.get("distributed.nanny.pre-spawn-environ") | MALLOC
    }
    with dask.config.set(LOCAL | environment), interrupts_kept_from_processes():
        try:
            return LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address=":0", silence_logs=50)
        except RuntimeError:  # a process was lost while it started
            raise ClusterError(f"the {workers} processes of the Dask cluster do not start") from None


def _connect(address: str | None) -> Client:
    import asyncio

    from distributed import Client, rpc

    async def ask() -> None:
        async with rpc(address) as scheduler:
            await asyncio.wait_for(scheduler.identity(), CONNECT_SECONDS)

    # A client would wait without end where another server answers, and when it is deleted before it has connected.
    try:
        # The thread of a notebook has a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, ask()).result()
        return Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except Exception as error:
        # What is not a scheduler can answer with anything: Dask raises MemoryError for the size of a message that is
        # text, and TypeError for an address with `tls` without certificates.
        raise ClusterError(f"no Dask scheduler answers at {address}") from error


def _close(client: Client) -> None:
    with contextlib.suppress(Exception):  # a lost cluster
        client.close(timeout=2)
