"""Signals that raise exceptions, and blocks that defer them."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from xmlgp.runtime.interrupts import (
    Interrupted,
    defer_signals,
    handle_signals,
    ignore_signals,
    raise_pending_signal,
    signal_pending,
    uninterruptible,
)

ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ALL)
def test_a_signal_raises_an_exception_with_the_exit_status(number):
    with pytest.raises(Interrupted) as caught, handle_signals():
        send(number)
    assert caught.value.status == 128 + number


def test_a_deferred_signal_can_be_raised_within_the_block():
    done = []

    def work():
        with handle_signals(), defer_signals():
            raise_pending_signal()
            send(signal.SIGTERM)
            done.append(signal_pending())
            raise_pending_signal()
            done.append("after")

    with pytest.raises(Interrupted):
        work()
    assert done == [True]


def test_a_signal_is_deferred_to_the_end_of_the_block():
    done = []

    def work():
        with handle_signals(), defer_signals():
            send(signal.SIGTERM)
            done.append("after")

    with pytest.raises(Interrupted):
        work()
    assert done == ["after"]


def test_a_second_signal_is_not_deferred():
    done = []

    def work():
        with handle_signals(), defer_signals():
            send(signal.SIGTERM)
            done.append("after one")
            send(signal.SIGINT)
            done.append("after two")

    with pytest.raises(Interrupted) as caught:
        work()
    assert done == ["after one"]
    assert caught.value.number == signal.SIGINT


@pytest.mark.parametrize("single", [True, False])
def test_signals_are_not_raised_in_an_uninterruptible_block(single):
    done = []

    def work():
        with handle_signals(), defer_signals():
            with uninterruptible:
                with uninterruptible:
                    send(signal.SIGTERM)
                    if not single:
                        send(signal.SIGINT)
                done.append("inner")
            done.append("outer")
            raise_pending_signal()
            done.append("never")

    with pytest.raises(Interrupted):
        work()
    assert done == ["inner", "outer"][: 1 + single]


def test_a_signal_is_raised_at_the_end_of_an_uninterruptible_block():
    done = []

    def work():
        with handle_signals():
            with uninterruptible:
                send(signal.SIGTERM)
                done.append("inner")
            done.append("outer")

    with pytest.raises(Interrupted):
        work()
    assert done == ["inner"]


def test_an_error_in_the_block_takes_precedence_over_a_signal():
    def work():
        with handle_signals(), defer_signals():
            send(signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    # Nor does it interrupt what follows.
    with uninterruptible:
        pass


def test_ignored_signals_have_no_effect_until_the_next_block():
    def work():
        with handle_signals():
            try:
                send(signal.SIGTERM)
            finally:
                ignore_signals()
                for number in ALL:
                    send(number)

    with pytest.raises(Interrupted) as caught:
        work()
    assert caught.value.number == signal.SIGTERM
    # The next block handles them again.
    with pytest.raises(Interrupted), handle_signals():
        send(signal.SIGHUP)


def test_a_signal_at_the_end_of_the_block_does_not_keep_handlers(monkeypatch):
    before, real = [signal.getsignal(number) for number in ALL], signal.signal

    def slow(number, handler):
        send(number)
        return real(number, handler)

    with handle_signals():
        monkeypatch.setattr(signal, "signal", slow)
    assert [signal.getsignal(number) for number in ALL] == before


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_not_set_in_other_threads():
    found = []

    def work():
        with handle_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_an_interrupted_run_waits_for_its_threads():
    program = """if True:
        import os, signal, time
        from xmlgp.runtime.interrupts import Interrupted, handle_signals
        from xmlgp.runtime.threads import run_parallel
        written = []

        def slow():
            time.sleep(0.1)
            written.append(1)

        for number in (signal.SIGTERM, signal.SIGINT):
            with handle_signals():
                try:
                    run_parallel([lambda: os.kill(os.getpid(), number), slow, slow])
                except Interrupted:
                    before = len(written)
                    time.sleep(0.3)
                    print(len(written), len(written) - before)
    """
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout == b"2 0\n4 0\n"
