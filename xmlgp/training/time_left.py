"""The time that long work still takes, from the expected costs of its phases and the time so far."""

from __future__ import annotations

import time
from collections.abc import Mapping

__all__ = ["TimeLeft"]

#: The share of the expected costs that counts as done in the expected time, so that the first moments say little.
PRIOR_SHARE = 0.005


class TimeLeft:
    """The time left of work that has phases, one after the other; it is to be called now and then.

    `costs` are the expected seconds of each phase, in order: those before its first step, and those of its steps. What
    is left takes the expected time, times the ratio of the time so far and what was expected of it; it stays while
    nothing more is done. What was done before this process counts as done in the expected time. What comes before the
    first step of all, where nothing is expected, does not count: it may be the compilation of functions.
    """

    def __init__(self, costs: Mapping[str, tuple[float, float]]) -> None:
        self._costs = costs
        self._phase = ""
        #: When the work would have begun, when the phase did, and the ratio so far.
        self._began = self._entered = self._done = 0.0
        self._ratio = 1.0

    def __call__(self, phase: str, share: float | None) -> tuple[float, float] | None:
        """Return the seconds of what is done, and of all, in a phase, of whose steps a share is done; None if unknown.

        A share of None is before the first step.
        """
        if phase not in self._costs:
            return None
        start, steps = self._costs[phase]
        now = time.monotonic()
        costs = list(self._costs.values())
        before = sum(map(sum, costs[: list(self._costs).index(phase)]))
        total = sum(map(sum, costs))
        prior = PRIOR_SHARE * total
        if not (self._done or (self._phase and share)):
            self._began = now - before - steps * (share or 0)
        if phase != self._phase:
            self._phase = phase
            self._entered = now
        done = before + (start + share * steps if share else min(start, (now - self._entered) / self._ratio))
        if done > self._done:
            self._done = done
            self._ratio = (prior + now - self._began) / (prior + done)
        return (self._ratio * self._done, self._ratio * total) if self._done else None
