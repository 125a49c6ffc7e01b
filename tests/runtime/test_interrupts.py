"""Signals that raise exceptions, and blocks that defer them."""

import os
import signal
import subprocess
import sys

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


def events(action):
    """Return what an action reports, and the number of the signal that ends it within `handle_signals`."""
    done = []
    with pytest.raises(Interrupted) as caught, handle_signals():
        action(done.append)
    return done, caught.value.number


def test_a_deferred_signal_can_be_raised_within_the_block():
    def work(report):
        with defer_signals():
            raise_pending_signal()
            send(signal.SIGTERM)
            report(signal_pending())
            raise_pending_signal()
            report("after")

    assert events(work) == ([True], signal.SIGTERM)


def test_a_signal_is_deferred_to_the_end_of_the_block():
    def work(report):
        with defer_signals():
            send(signal.SIGTERM)
            report("after")
        report("never")

    assert events(work) == (["after"], signal.SIGTERM)


def test_a_second_signal_is_not_deferred():
    def work(report):
        with defer_signals():
            send(signal.SIGTERM)
            report("after one")
            send(signal.SIGINT)
            report("after two")

    assert events(work) == (["after one"], signal.SIGINT)


@pytest.mark.parametrize("single", [True, False])
def test_signals_are_not_raised_in_an_uninterruptible_block(single):
    def work(report):
        with defer_signals():
            with uninterruptible:
                with uninterruptible:
                    send(signal.SIGTERM)
                    if not single:
                        send(signal.SIGINT)
                report("inner")
            report("outer")
            raise_pending_signal()
            report("never")

    assert events(work)[0] == ["inner", "outer"][: 1 + single]


def test_a_signal_is_raised_at_the_end_of_an_uninterruptible_block():
    def work(report):
        with uninterruptible:
            send(signal.SIGTERM)
            report("inner")
        report("outer")

    assert events(work)[0] == ["inner"]


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
    def work(report):
        try:
            send(signal.SIGTERM)
        finally:
            ignore_signals()
            for number in ALL:
                send(number)

    assert events(work) == ([], signal.SIGTERM)
    # The next block handles them again.
    assert events(lambda report: send(signal.SIGHUP)) == ([], signal.SIGHUP)


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
