"""Connect to a Dask cluster, or start one of local processes."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

from xmlgp.data.cache import folder_for_run
from xmlgp.errors import ClusterError
from xmlgp.runtime.interrupts import interrupts_kept_from_processes
from xmlgp.runtime.threads import core_count
from xmlgp.work import THIS_MACHINE

__all__ = ["open_work"]

#: Seconds until a scheduler must have answered.
CONNECT_SECONDS = 10

#: Times that local processes are started if one of them is lost meanwhile.
STARTS = 3

#: Settings of Dask for local processes. One that says nothing for so long is replaced. Memory that they have freed they
#: keep up to so many bytes: Dask tells them to return it at once, which took 1.7 times the processor time.
LOCAL = {"distributed.scheduler.worker-ttl": "10s", "distributed.worker.profile.enabled": False}
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 27, "MALLOC_MMAP_THRESHOLD_": 1 << 25}


@contextlib.contextmanager
def open_work(scheduler=None, workers=None, client=None):
    """Yield a `DaskCluster`, or `THIS_MACHINE` if no argument asks for one. Only then is Dask imported.

    A cluster is one whose scheduler has an address such as `tcp://HOST:8786`, a number of worker processes on this
    machine, which share its cores, or that of a `distributed.Client`, which stays open. ClusterError is raised if Dask
    is not installed, the scheduler does not answer, the client is closed, or a worker cannot be used.
    """
    if scheduler is None and workers is None and client is None:
        yield THIS_MACHINE
        return
    try:
        import distributed

        from xmlgp.work.cluster import DaskCluster
    except ModuleNotFoundError as error:
        raise ClusterError(f"{error.name} is not installed; install it with `pip install 'xmlgp[dask]'`") from error
    if client is not None and not isinstance(client, distributed.Client):
        raise TypeError(f"client is a {type(client).__name__}, but must be a distributed.Client")
    if client is not None and client.status != "running":
        raise ClusterError("the client of the Dask cluster is closed")
    with contextlib.ExitStack() as stack:
        # First, so that it is removed after the processes that write to it have ended.
        folder = stack.enter_context(folder_for_run("cluster"))
        if workers is not None:
            scheduler = stack.enter_context(_local_cluster(workers)).scheduler_address
        if client is None:
            client = _connect(scheduler)
            stack.callback(_close, client)
        yield DaskCluster(client, folder)


def _local_cluster(workers):
    import dask
    from distributed import LocalCluster

    threads = max(1, core_count() // workers)
    environment = {
        "distributed.nanny.pre-spawn-environ": dask.config.get("distributed.nanny.pre-spawn-environ") | MALLOC
    }
    with dask.config.set(LOCAL | environment), interrupts_kept_from_processes():
        for _ in range(STARTS):
            try:
                return LocalCluster(
                    n_workers=workers, threads_per_worker=threads, dashboard_address=":0", silence_logs=50
                )
            except RuntimeError:  # a process was lost while it started
                continue
    raise ClusterError(f"the {workers} processes of the Dask cluster do not start")


def _connect(address):
    from distributed import Client, rpc

    async def ask():
        async with rpc(address) as scheduler:
            await scheduler.identity()

    async def ask_in_time():
        await asyncio.wait_for(ask(), CONNECT_SECONDS)

    # A client would wait without end where another server answers, and when it is deleted before it has connected.
    try:
        # In a thread, for in a notebook this one has a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, ask_in_time()).result()
        return Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except Exception as error:
        # What is not a scheduler can answer with anything: Dask raises MemoryError for the size of a message that is
        # text, and TypeError for an address with `tls` without certificates.
        raise ClusterError(f"no Dask scheduler answers at {address}") from error


def _close(client):
    with contextlib.suppress(Exception):  # what is lost cannot be told
        client.close(timeout=2)
