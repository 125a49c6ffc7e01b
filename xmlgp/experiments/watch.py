"""A stopwatch for a training that is measured while it is under way."""

import time

__all__ = ["Watch"]

#: Factor from one measured moment to the next at least: even steps on the logarithmic axis of seconds.
GROWTH = 1.1


class Watch:
    """Times a training, and has its parameters measured now and then, while the clock stands still.

    Parameters
    ----------
    limit : float
        Seconds after which the training is to end.
    measure : callable
        Returns the measures of parameters, as mapping of names to numbers.
    growth : float
        Factor from one measured moment to the next, at least.

    Attributes
    ----------
    curve : list of dict
        For each measured moment `epoch`, `seconds` of training until then, and the measures.
    """

    def __init__(self, limit, measure, growth=GROWTH):
        self.curve = []
        self._limit, self._measure, self._growth = limit, measure, growth
        self._due, self._seconds = 0.0, 0.0
        self._begun = time.perf_counter()

    def lap(self, epoch, parameters):
        """Look at the clock after a step; return whether the time is up.

        The first lap is measured, and that at which the time is up.

        Parameters
        ----------
        epoch : float
            How often the training went through the data.
        parameters : callable
            Returns the parameters.
        """
        now = time.perf_counter()
        self._seconds = now - self._begun
        over = self._seconds >= self._limit
        if over or self._seconds >= self._due:
            self.finish(epoch, parameters)
            self._due = self._seconds * self._growth
            self._begun += time.perf_counter() - now
        return over

    def over(self):
        """Return whether the time is up, between two laps."""
        return time.perf_counter() - self._begun >= self._limit

    def finish(self, epoch, parameters):
        """Measure the last lap if it has not been.

        Parameters
        ----------
        epoch, parameters
            As in `lap`.
        """
        if not self.curve or self.curve[-1]["epoch"] != epoch:
            self.curve.append({"epoch": epoch, "seconds": self._seconds} | self._measure(parameters()))
