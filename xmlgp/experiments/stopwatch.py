"""A stopwatch for a training run that is measured while it runs."""

import time

__all__ = ["Stopwatch"]

#: Least ratio of the seconds of two successive measurements: even steps on a logarithmic axis.
GROWTH = 1.1


class Stopwatch:
    """Time a training run and measure its parameters at intervals, without counting the time of measuring.

    Training must end after `limit` seconds. The curve has the `epoch`, the `seconds` of training until then and the
    measures of each measurement; two successive ones are apart by a ratio of seconds of at least `growth`.
    """

    def __init__(self, limit, measure, growth=GROWTH):
        self.curve = []
        self._limit, self._measure, self._growth = limit, measure, growth
        self._due, self._seconds = 0.0, 0.0
        self._start = time.perf_counter()

    def lap(self, epoch, parameters):
        """Record the time after a step and return whether the time limit is reached.

        The first lap is measured, and the lap that reaches the time limit.
        """
        now = time.perf_counter()
        self._seconds = now - self._start
        over = self._seconds >= self._limit
        if over or self._seconds >= self._due:
            self.finish(epoch, parameters)
            self._due = self._seconds * self._growth
            self._start += time.perf_counter() - now
        return over

    def over(self):
        """Return whether the time limit is reached, between two laps."""
        return time.perf_counter() - self._start >= self._limit

    def finish(self, epoch, parameters):
        """Measure the last lap if it has not been measured."""
        if not self.curve or self.curve[-1]["epoch"] != epoch:
            self.curve.append({"epoch": epoch, "seconds": self._seconds} | self._measure(parameters()))
