"""Tasks on the workers of a Dask cluster: results in order, and a lost worker costs its task only.

Dask's own retries would run a task again on any worker, several at a time on a worker with several threads, and give a
task up after a few lost workers. Here each task is sent to one worker, which runs one at a time with all of its
threads, and is sent to another one when that worker is lost.

Only code that has a `Cluster` imports Dask; what it runs on the workers does not.
"""

import collections
import contextlib
import time

from distributed import CancelledError, wait

from xmlgp.cluster.files import StoredMatrix
from xmlgp.cluster.worker import Caller, StorageError, has_actor, problem_of, run
from xmlgp.errors import ClusterError, XmlgpError
from xmlgp.runtime.interrupts import uninterruptible

__all__ = ["Cluster"]

#: Tasks of a worker: one that runs, and one that waits for it, so that no worker waits for the scheduler.
AHEAD = 2

#: Finished results that wait for an earlier one, for each worker; more would fill the memory.
FINISHED = 8

#: Seconds from one look at the list of workers to the next, and seconds that the cluster may be without a worker or
#: without its scheduler.
LOOK_SECONDS, PATIENCE_SECONDS = 1.0, 30.0

#: Workers that may be lost while they run the same task; it kills them, most likely by its memory.
MOST_LOSSES = 5


class Cluster:
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        With `direct_to_workers`, so that results do not pass through the scheduler.
    work : Path
        A folder on storage that all workers see; files of the run are written there.

    Attributes
    ----------
    work : Path
    most_workers : int
        The largest number of workers that have been seen.

    Raises
    ------
    ClusterError
        If there is no worker, or one that cannot be used.
    """

    def __init__(self, client, work):
        self._client, self.work, self._address = client, work, client.scheduler.address
        #: Workers that can be used, and those of them that `call` uses, with their `Caller`.
        self._usable, self._callers = [], {}
        #: Matrices on shared storage, by the identity of the matrix, which is kept so that no other one gets it.
        self._stored, self._folders = {}, 0
        self._known, self._looked, self.most_workers, self._threads = set(), -LOOK_SECONDS, 0, 1
        self._wait_for_workers()

    @property
    def worker_count(self):
        """The number of workers that can be used."""
        return len(self._usable)

    @property
    def threads(self):
        """The most threads that a worker has."""
        return self._threads

    @property
    def dashboard(self):
        """The address of the dashboard, or None if the scheduler has none."""
        with contextlib.suppress(Exception):
            return self._client.dashboard_link or None
        return None

    def new_folder(self, name):
        """Return a new folder on shared storage, removed at the end of the run.

        Parameters
        ----------
        name : str
        """
        self._folders += 1
        folder = self.work / f"{name}-{self._folders}"
        folder.mkdir()
        return folder

    def stored(self, matrix):
        """Return the `StoredMatrix` of a matrix, which is written to shared storage if it is in memory.

        Parameters
        ----------
        matrix : csr_array
        """
        if id(matrix) not in self._stored:
            self._stored[id(matrix)] = matrix, StoredMatrix.of(matrix, self.new_folder("matrix"))
        return self._stored[id(matrix)][1]

    def map(self, function, items):
        """Call a function for every item on the workers, and yield the results in the order of the items.

        The function may run more than once for an item, so it must do the same each time: what it writes is written
        under a name of the item, and atomically.

        Parameters
        ----------
        function : callable
            Of a module of xmlgp.
        items : iterable of tuple
            Arguments; taken from the iterable as workers become free. They pass through the scheduler, so they are
            small: large arrays are in files that arguments name.

        Raises
        ------
        ClusterError
            If the scheduler or all workers are lost, or a worker cannot read or write a file.
        XmlgpError
            If the function raises one.
        """
        with self._told_if_closed():
            yield from self._map(function, items)

    def _map(self, function, items):
        waiting = enumerate(items)
        again, running, finished, losses = collections.deque(), {}, {}, collections.Counter()
        number, exhausted = 0, False
        try:
            while True:
                while number in finished:
                    yield finished.pop(number)
                    number += 1
                workers = self._wait_for_workers()
                for worker in workers:
                    while _load(running, worker) < AHEAD and not (exhausted and not again):
                        if not again and len(finished) >= FINISHED * len(workers):
                            break
                        task = again.popleft() if again else next(waiting, None)
                        if task is None:
                            exhausted = True
                            break
                        running[self._submit(function, task[1], worker)] = worker, task
                if not running:
                    if exhausted and not again and not finished:
                        return
                    continue
                ended = self._first_done(running)
                for future, (worker, task) in list(running.items()):
                    done, result = self._result(future, worker) if future in ended else (False, None)
                    if done:
                        finished[task[0]] = result
                    elif future in ended or worker not in self._usable:
                        again.append(task)
                        losses[task[0]] += 1
                        if losses[task[0]] == MOST_LOSSES:
                            raise _too_many_losses()
                    else:
                        continue
                    del running[future]
        finally:
            with contextlib.suppress(Exception), uninterruptible:
                self._client.cancel(list(running), force=True)

    def call(self, function, parts):
        """Call a function for every part at once, one on each worker, and return the results in order.

        Arguments and results go directly from machine to machine, so this is for calls of a few milliseconds, and for
        arguments that change from call to call.

        Parameters
        ----------
        function : callable
            Of a module of xmlgp.
        parts : sequence of tuple
            Arguments.

        Raises
        ------
        ClusterError, XmlgpError
            As in `map`.
        """
        with self._told_if_closed():
            return self._call(function, parts)

    def _call(self, function, parts):
        results, missing, lost = [None] * len(parts), list(range(len(parts))), set()
        while missing:
            if len(lost) >= MOST_LOSSES:
                raise _too_many_losses()
            workers = self._wait_for_workers()
            calls = []
            for place, number in enumerate(missing):
                worker = workers[place % len(workers)]
                calls.append((number, worker, self._ask(worker, function, parts[number])))
            missing = []
            for number, worker, answer in calls:
                done, results[number] = self._answer(answer, worker)
                if not done:
                    missing.append(number)
                    lost.add(worker)
        return results

    def _ask(self, worker, function, part):
        """Return the answer that a worker will give to a call; None if the worker is lost."""
        caller = self._caller(worker)
        try:
            return caller and caller.call(function, *part)
        except (OSError, RuntimeError):
            # Another process may have the address of the lost one, and needs a `Caller` of its own.
            return self._lose(worker)

    def _caller(self, worker):
        """Return the `Caller` of a worker; None if the worker is lost meanwhile."""
        if worker not in self._callers:
            future = self._client.submit(Caller, actor=True, workers=[worker], pure=False)
            done = self._wait([future], worker)
            if not done or future.status != "finished":
                return self._lose(worker)
            # An actor looks for the client that it belongs to.
            with self._client.as_current():
                self._callers[worker] = future.result()
        return self._callers[worker]

    def _answer(self, answer, worker):
        """Return whether a call is done, and its result."""
        while answer is not None:
            try:
                found = answer.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                # An answer that is late can be that of a machine that is gone, or of a process that began anew.
                if worker in self._look() and self._has_caller(worker):
                    continue
            except (OSError, RuntimeError):
                pass
            else:
                return True, _unpack(found, worker)
            answer = self._lose(worker)
        return False, None

    def _has_caller(self, worker):
        """Return whether a worker still has the `Caller` that was made there."""
        caller = self._callers.get(worker)
        if caller is None:
            return False
        try:
            found = self._client.run(has_actor, caller.key, workers=[worker], on_error="return")
        except (OSError, TimeoutError, ValueError):
            return False
        return found.get(worker) is True

    def _lose(self, worker):
        """Forget a worker that does not answer, and look for it again later; return None."""
        self._callers.pop(worker, None)
        self._usable = [other for other in self._usable if other != worker]
        self._known.discard(worker)
        self._looked = time.monotonic()

    def _submit(self, function, arguments, worker):
        with uninterruptible:
            return self._client.submit(
                run, function, arguments, workers=[worker], allow_other_workers=False, pure=False, retries=0
            )

    def _first_done(self, futures):
        """Return the futures that have ended, in a result or otherwise; none after a while."""
        with contextlib.suppress(TimeoutError, CancelledError), self._client.as_current():
            wait(list(futures), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        self._look_again()
        return [future for future in futures if future.status != "pending"]

    def _wait(self, futures, worker):
        """Wait for futures of a worker; return whether they are done, False if the worker is lost."""
        while any(future.status == "pending" for future in futures):
            self._first_done(futures)
            if worker not in self._usable:
                return False
        return True

    def _result(self, future, worker):
        """Return whether a task is done, and its result."""
        if future.status != "finished":
            error = future.exception() if future.status == "error" else None
            if error is None or type(error).__name__ == "KilledWorker":
                return False, None
            raise error
        try:
            return True, _unpack(self._client.gather(future, direct=True), worker)
        except (OSError, CancelledError):
            return False, None

    def _look_again(self):
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()

    def _look(self):
        """Look at which workers there are, check those that are new, and return the addresses of those to use."""
        workers = self._addresses()
        self._looked = time.monotonic()
        if workers is not None:
            self._usable = [worker for worker in self._usable if worker in workers]
            for worker in workers - self._known:
                if self._check(worker):
                    self._usable.append(worker)
            self._known &= workers
            self._callers = {worker: caller for worker, caller in self._callers.items() if worker in self._usable}
            self.most_workers = max(self.most_workers, len(self._usable))
        return self._usable

    def _addresses(self):
        """Return the addresses of all workers; None if the scheduler does not answer."""
        with contextlib.suppress(OSError, TimeoutError, RuntimeError, ValueError):
            if self._client.status == "running":
                identity = self._client.sync(self._client.scheduler.identity, callback_timeout=PATIENCE_SECONDS)
                workers = identity["workers"]
                self._threads = max((worker["nthreads"] for worker in workers.values()), default=self._threads)
                return set(workers)
        return None

    def _check(self, worker):
        """Return whether a new worker can be used; False if it is lost meanwhile."""
        if worker.startswith("inproc:"):
            raise ClusterError(f"worker {worker} of the Dask cluster is no process of its own")
        self._known.add(worker)
        try:
            found = self._client.run(
                eval, "__import__('xmlgp').__version__", workers=[worker], on_error="return", nanny=False
            )
        except (OSError, TimeoutError, ValueError):
            found = {}
        if isinstance(found.get(worker), OSError | None):
            self._known.discard(worker)
            return False
        problem = problem_of(found[worker])
        if problem is None:
            return True
        raise ClusterError(f"worker {worker} of the Dask cluster {problem}")

    def _is_closed(self):
        """Return whether the client has given up to connect to the scheduler."""
        return self._client.status in ("closed", "closing")

    def _scheduler_lost(self):
        return ClusterError(f"the Dask scheduler at {self._address} is lost")

    @contextlib.contextmanager
    def _told_if_closed(self):
        """Raise ClusterError for what a client raises that has lost its scheduler."""
        try:
            yield
        except Exception as error:
            if isinstance(error, XmlgpError) or not self._is_closed():
                raise
            raise self._scheduler_lost() from error

    def _wait_for_workers(self):
        """Return the addresses of the workers to use; wait for a while if there are none."""
        self._look_again()
        since = time.monotonic()
        while not self._usable:
            if self._is_closed():
                raise self._scheduler_lost()
            if time.monotonic() - since > PATIENCE_SECONDS:
                if self._addresses() is None:
                    raise self._scheduler_lost()
                lost = "all workers of the Dask cluster are lost"
                raise ClusterError(lost if self.most_workers else "the Dask cluster has no worker")
            time.sleep(0.1)
            self._look()
        return self._usable


def _too_many_losses():
    return ClusterError(
        f"{MOST_LOSSES} workers of the Dask cluster were lost while they ran the same task; they may need more memory"
    )


def _load(running, worker):
    return sum(owner == worker for owner, _ in running.values())


def _unpack(answer, worker):
    """Return the result of a task; raise its error, with the name of the worker if that is what is wrong."""
    result, error = answer
    if error is None:
        return result
    if isinstance(error, StorageError):
        raise ClusterError(f"worker {worker} of the Dask cluster cannot use the shared storage: {error}") from error
    raise error
