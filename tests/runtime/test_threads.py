"""Parallel tasks, and the number of BLAS threads."""

import functools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from xmlgp.runtime import threads
from xmlgp.runtime.threads import core_count, limit_threads, one_blas_thread, parallel_for, run_parallel, start_task


def blas_threads():
    """Threads of every BLAS library."""
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    import scipy.linalg  # noqa: F401 -- loads the BLAS library of SciPy

    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this system has no BLAS with threads")
        yield


@pytest.fixture(params=[1, 5])
def cores(request, monkeypatch):
    """Pretend that the machine has so many cores; return the number."""
    monkeypatch.setattr(threads, "_all_cores", lambda: request.param)
    return request.param


@pytest.mark.usefixtures("two_threads")
def test_blas_has_one_thread_within_the_block():
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("count", [1, 3])
def test_a_limit_is_the_number_of_threads_of_all_work_in_the_block(cores, count):
    together = threading.Barrier(count)

    def task():
        # It would time out if less threads worked.
        together.wait(60)
        return threading.get_ident(), blas_threads()

    with limit_threads(count), limit_threads(None):
        assert core_count() == count
        used = run_parallel([task] * count * 4)
        with limit_threads(7):
            assert core_count() == 7
        assert core_count() == count
        elsewhere = threading.Thread(target=lambda: used.append(core_count()))
        elsewhere.start()
        elsewhere.join()
    assert used.pop() == core_count() == cores
    assert len({ident for ident, _ in used}) == count
    assert all(blas == {1} for _, blas in used)
    assert blas_threads() == {2}


def test_there_is_at_least_one_thread():
    with pytest.raises(ValueError, match="^the number of threads is 0, but must be at least 1$"), limit_threads(0):
        pass
    assert core_count() > 0


@pytest.mark.parametrize("count", [0, 1, 30])
def test_every_task_runs_once_and_results_are_in_the_order_of_the_tasks(cores, count):
    done = []

    def task(number):
        done.append(number)
        return -number

    assert run_parallel(functools.partial(task, number) for number in range(count)) == [-n for n in range(count)]
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize(("total", "grain"), [(0, 1), (7, 3), (100, 1000), (5, 0)])
def test_parallel_for_covers_the_range(cores, total, grain):
    bounds = []
    parallel_for(lambda start, stop: bounds.append((start, stop)), total, grain)
    assert [i for start, stop in sorted(bounds) for i in range(start, stop)] == list(range(total))
    assert len(bounds) <= cores
    assert len(bounds) == 1 or total // len(bounds) >= grain


def test_tasks_can_start_tasks(cores):
    done = []

    def task(number):
        parallel_for(lambda start, stop: done.extend((number, i) for i in range(start, stop)), 10, 1)
        done.append((number, start_task(lambda: 10)()))

    run_parallel(functools.partial(task, number) for number in range(8))
    assert sorted(done) == [(number, i) for number in range(8) for i in range(11)]


def test_an_error_is_raised_after_all_running_tasks_end(cores):
    running, done, main = set(), [], threading.current_thread()

    def task(number):
        running.add(number)
        time.sleep(0.01)
        running.discard(number)
        if number and (cores == 1 or threading.current_thread() is not main):
            raise KeyError(number)
        done.append(number)

    with pytest.raises(KeyError):
        run_parallel(functools.partial(task, number) for number in range(50))
    assert not running
    assert len(done) < 49
    run_parallel([functools.partial(done.append, "more")])
    assert done[-1] == "more"


def test_start_task_returns_the_result_or_raises_the_error(cores):
    released = threading.Event()
    if cores == 1:
        released.set()
    result = start_task(lambda: released.wait(60))
    # Other parallel work does not wait for it.
    parallel_for(lambda start, stop: None, 10, 1)
    released.set()
    assert result() is True

    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        start_task(fail)()


def test_numpy_error_settings_apply_to_all_threads(cores):
    def overflow():
        return np.exp(np.float32(1000) * np.ones(1, np.float32))

    with np.errstate(over="ignore"):
        run_parallel([overflow] * 10)
        start_task(overflow)()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        run_parallel([overflow] * 10)


def test_the_limit_holds_for_the_blas_of_scipy_that_is_imported_later():
    code = """
import sys
from threadpoolctl import ThreadpoolController
from xmlgp.runtime.threads import one_blas_thread

with one_blas_thread():
    assert "scipy.linalg" not in sys.modules
    import scipy.linalg
    print({library.num_threads for library in ThreadpoolController().lib_controllers if library.user_api == "blas"})
"""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout == "{1}\n"


def test_the_command_line_does_not_import_numpy():
    code = "import sys, xmlgp.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_starts_its_own_threads():
    program = """if True:
        import os
        from xmlgp.runtime.threads import parallel_for
        done = []
        parallel_for(lambda start, stop: done.append((start, stop)), 100, 10)
        child = os.fork()
        if not child:
            parallel_for(lambda start, stop: done.append((start, stop)), 100, 10)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


@pytest.mark.usefixtures("two_threads")
def test_blas_stays_at_one_thread_while_another_thread_needs_it():
    inside, leave, seen = threading.Event(), threading.Event(), []

    def longer():
        with one_blas_thread():
            inside.set()
            leave.wait(60)
            seen.append(blas_threads())

    with one_blas_thread():
        other = threading.Thread(target=longer)
        other.start()
        inside.wait(60)
    leave.set()
    other.join()
    assert seen == [{1}]
    assert blas_threads() == {2}
