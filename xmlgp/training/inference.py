"""The interface of inference methods for the training loop."""

__all__ = ["Inference"]


class Inference:
    """The steps of a training run, or of a stage of it (`Stages`); the base class of every inference method.

    The loop makes `epochs` epochs of `steps_in(epoch)` steps each. The state of an inference is its arrays and, if it
    draws random numbers between steps, its random generator: the loop writes both to checkpoints, and to resume it
    makes a new object from the same arguments and copies the stored state into it.

    Attributes
    ----------
    objective : str
        Name of what training maximises, as the history has it.
    advice : str
        Advice for the user when training diverges.
    advice_at_start : str or None
        The same when training diverges before the first step; None for `advice`.
    epochs : int
        Largest number of epochs.
    steps_per_epoch : int
        Steps in each epoch, unless `steps_in` says otherwise.
    equal_steps : bool
        Whether all steps take about the same time. Otherwise `cost` weighs them, so that progress and the estimate of
        the time left are those of the whole training.
    converged : bool
        Whether no further epoch is needed.
    random : numpy.random.Generator or None
        Source of random numbers that steps draw; None if steps draw none.
    """

    objective = "bound"
    advice = "try other settings"
    advice_at_start = None
    epochs = 1
    steps_per_epoch = 1
    equal_steps = True
    converged = False
    random = None

    def steps_in(self, epoch):
        """Return the number of steps in an epoch, counted from 0."""
        return self.steps_per_epoch

    def cost(self, epoch, done):
        """Return the time that a step takes, in any unit; used unless `equal_steps`.

        Parameters
        ----------
        epoch, done : int
            As for `step`.
        """
        return 1

    def place(self, epoch):
        """Return the number of an epoch and of all, as the progress shows them."""
        return {"epoch": f"{epoch + 1}/{self.epochs}"}

    def begin(self, epoch):
        """Prepare for the steps of an epoch, counted from 0.

        Called before each epoch. A resumed run calls it for the epoch of its checkpoint only, before it fills the
        arrays, so that the arrays may differ from epoch to epoch.
        """

    def end(self):
        """Free what only steps need, after the last one, where another stage follows."""

    def step(self, epoch, done):
        """Make one step.

        Parameters
        ----------
        epoch : int
            Number of the epoch, counted from 0.
        done : int
            Steps of this epoch made before.

        Returns
        -------
        float or None
            The objective or an estimate of it; None if this step does not compute one. An epoch without one has no
            entry in the history.

        Raises
        ------
        NumericalError
            If a computation becomes non-finite.
        ClusterError
            If the cluster is lost. The state is then that before the step, but for the random generator.
        """
        raise NotImplementedError

    def arrays(self):
        """Return the arrays that steps change, by name; a resumed run fills them in place."""
        raise NotImplementedError

    def parameters(self, epochs):
        """Return the parameters of the model by name, after some epochs."""
        raise NotImplementedError

    def notes(self):
        """Return numbers that join each epoch's entry in the history, by name."""
        return {}
