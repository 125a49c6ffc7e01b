"""Progress of long work: the library reports it, the command line shows it on a terminal.

Library functions take `progress=silent` and know neither terminals nor options.
"""

import contextlib
import sys
import time
from types import SimpleNamespace

from tqdm import tqdm

__all__ = ["ignore", "silent", "tell_if_slow", "terminal_progress"]

#: tqdm's format without counts.
TIMES = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"

#: Seconds that the rest of a slow training takes at least, and seconds in which its speed is measured.
SLOW, MEASURED = 180, 5


@contextlib.contextmanager
def silent(label, total=None, unit="it"):
    """Show nothing; the default `progress` of every library function."""
    yield SimpleNamespace(update=lambda count=1, **facts: None)


def ignore(text):
    """Take no notice of a message; the default `note` of every library function."""


def terminal_progress(quiet=False):
    """Return a `progress` that draws bars on standard error if that is a terminal, unless `quiet`.

    `progress(label, total=None, unit="it")` is a context manager whose value has `update(count=1, **facts)`, which
    advances the bar and shows facts, such as the bound, at its end. With the unit None, counts stand for time and are
    not shown themselves.
    """
    if quiet or not sys.stderr.isatty():
        return silent

    @contextlib.contextmanager
    def show(label, total=None, unit="it"):
        options = {"bar_format": TIMES} if unit is None else {"unit": unit, "unit_scale": unit == "B"}
        with tqdm(total=total, desc=label, file=sys.stderr, leave=False, **options) as bar:

            def update(count=1, **facts):
                if facts:
                    bar.set_postfix(facts, refresh=False)
                bar.update(count)

            yield SimpleNamespace(update=update)

    return show


def tell_if_slow(progress, label, tell):
    """Return a `progress` that also calls `tell(seconds)`, once, if the rest of the work with a label is slow.

    The first update, which may stand for steps of an earlier run or for compiling, is not measured.
    """

    @contextlib.contextmanager
    def show(name, total=None, unit="it"):
        with progress(name, total=total, unit=unit) as bar:
            first, done, measured = None, 0, name != label

            def update(count=1, **facts):
                nonlocal first, done, measured
                bar.update(count, **facts)
                done, now = done + count, time.monotonic()
                first = first or (done, now)
                if not measured and now - first[1] >= MEASURED and done > first[0]:
                    measured = True
                    left = (total - done) * (now - first[1]) / (done - first[0])
                    if left >= SLOW:
                        tell(left)

            yield SimpleNamespace(update=update)

    return show
