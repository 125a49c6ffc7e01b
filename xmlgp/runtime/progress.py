"""Progress of long work: the library reports it, the command line shows it on a terminal.

Library functions take `progress=silent` and know neither terminals nor options.
"""

import contextlib
import sys

from tqdm import tqdm

__all__ = ["ignore", "silent", "terminal_progress"]

#: tqdm's format without counts.
TIMES = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"


class _SilentBar:
    """Accepts reports and shows nothing."""

    def update(self, count=1, **facts):
        """Do nothing."""


@contextlib.contextmanager
def silent(label, total=None, unit="it"):
    """Show nothing; the default `progress` of every library function."""
    yield _SilentBar()


def ignore(text):
    """Take no notice of a message; the default `note` of every library function."""


class _TerminalBar:
    """A tqdm bar whose postfix shows the latest facts."""

    def __init__(self, bar):
        self._bar = bar

    def update(self, count=1, **facts):
        """Advance by `count` units and show `facts`, such as the bound, at the end of the line."""
        if facts:
            self._bar.set_postfix(facts, refresh=False)
        self._bar.update(count)


def terminal_progress(quiet=False):
    """Return a `progress` that draws bars on standard error if that is a terminal, unless `quiet`.

    `progress(label, total=None, unit="it")` is a context manager whose value has `update(count=1, **facts)`. With the
    unit None, counts stand for time and are not shown themselves.
    """
    if quiet or not sys.stderr.isatty():
        return silent

    @contextlib.contextmanager
    def show(label, total=None, unit="it"):
        options = {"bar_format": TIMES} if unit is None else {"unit": unit, "unit_scale": unit == "B"}
        with tqdm(total=total, desc=label, file=sys.stderr, leave=False, **options) as bar:
            yield _TerminalBar(bar)

    return show
