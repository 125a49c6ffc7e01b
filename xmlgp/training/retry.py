"""A second attempt, with a lower learning rate, after training diverged."""

from xmlgp.training.loop import TrainingDiverged

__all__ = ["RETRY_RATE", "RetryOnDivergence"]

#: Factor of the learning rate in the second attempt.
RETRY_RATE = 0.25


class RetryOnDivergence:
    """Run a training loop; if it diverges, run it once more with `RETRY_RATE` times the learning rate.

    A run that diverges before its first step is not repeated: its starting point would be the same. Checkpoints
    hold the learning rate in use and whether it is that of the second attempt.

    Parameters
    ----------
    make_loop : callable
        Returns a new `Loop` for a learning rate.
    learning_rate : float
        Learning rate of the first attempt.
    """

    def __init__(self, make_loop, learning_rate):
        self._make_loop, self._learning_rate = make_loop, learning_rate

    def run(self, progress, after_epoch=None, checkpoints=None):
        """Do what `Loop.run` does, with the same arguments.

        Raises
        ------
        TrainingDiverged
            If the second attempt diverges as well.
        """
        rate, failure = self._learning_rate, None
        resume_from = checkpoints.resume_from if checkpoints else None
        if resume_from is not None:
            with resume_from.checked():
                rate, failure = resume_from.facts["learning_rate"], resume_from.facts["first_failure"]
        while True:
            kept = {"learning_rate": rate, "first_failure": failure}
            try:
                return self._make_loop(rate).run(progress, after_epoch, checkpoints, kept)
            except TrainingDiverged as error:
                if failure is not None:
                    raise TrainingDiverged(f"{error.reason} ({failure})", error.steps, error.advice) from error
                if not error.steps:
                    raise
                failure = f"a first attempt with learning rate {rate:g} diverged {error.when}"
            rate *= RETRY_RATE
