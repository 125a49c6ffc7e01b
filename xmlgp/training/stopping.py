"""Early stopping: score held-out points after each epoch, keep the best parameters, and end training in time."""

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.training.checkpoints import TrainingState
from xmlgp.training.loop import Verdict

__all__ = ["WINDOW", "EarlyStopping", "hold_out", "ndcg_of_blocks"]

#: Number of the last scores whose mean compares epochs.
WINDOW = 5

#: Attributes of `EarlyStopping` that a checkpoint holds as facts.
STATE = ("scores", "best_epoch", "best_score")


def hold_out(count, share, random):
    """Split points uniformly at random into those to train on and those to validate on.

    round(share·N) points are held out, but at least one and not all; with N < 2 none.

    Parameters
    ----------
    count : int
        N.
    share : float
        From 0 to 1; 0 holds out none and draws no random number.
    random : numpy.random.Generator

    Returns
    -------
    training_rows, validation_rows : ndarray of int
        In ascending order.
    """
    held = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held > 0:
        chosen[random.choice(count, held, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def ndcg_of_blocks(labels, blocks, k=5):
    """Return the mean nDCG@k of `evaluate_ranking`, in percent, from blocks of scores.

    Only the k highest scores of each point are kept.

    Parameters
    ----------
    labels : csr_array of bool, N×K
        The true labels.
    blocks : iterable of ndarray, B×K
        The scores of all labels, for the points in order.
    k : int

    Raises
    ------
    SettingsError
        If the numbers of points or labels differ, or no point has a label.
    """
    best = [_top(block, k) for block in blocks]
    return evaluate_ranking(vstack(best, format="csr"), labels, ks=(k,))[f"nDCG@{k}"]


def _top(scores, k):
    """Return the k highest scores of each point as a csr_array, B×K; ties go to the label with the lower number."""
    count, label_count = scores.shape
    k = min(k, label_count)
    # Negated, because nan sorts last, as `evaluate_ranking` ranks it.
    negated = -scores
    negated.partition(k - 1, axis=1)
    points, labels = np.nonzero(~(scores < -negated[:, k - 1 : k]))
    values = scores[points, labels]
    order = np.lexsort((-values, points))
    starts = np.searchsorted(points, np.arange(count))
    order = order[(starts[:, None] + np.arange(k)).ravel()]
    return csr_array((values[order], labels[order], np.arange(count + 1) * k), scores.shape)


class EarlyStopping:
    """A hook of the training loop that keeps the best parameters and stops training when the score rises no more.

    Epochs are compared by the mean of the last `WINDOW` scores, without nan: a single score varies from epoch to epoch
    by more than it gains in ten, so the highest one is mostly chance. Of equal means the later epoch is better, because
    its bound is higher. An epoch whose own score is nan is never the best.

    Parameters
    ----------
    score : callable
        `score(parameters)` returns a number, higher for better, such as nDCG@5 of held-out points.
    patience : int
        Number of consecutive epochs without a better score that stops training; at least 1.
    name : str
        Name of the score in the history.

    Attributes
    ----------
    best_epoch : int or None
        Counted from 1; None as long as all scores are nan.
    best_score : float or None
        The mean at that epoch.
    best_parameters : dict of str to ndarray or None
        The parameters after `best_epoch`, in the memory order of training. A better epoch overwrites the arrays.
    scores : list of float
        One for each epoch.
    """

    def __init__(self, score, patience, name="ndcg@5"):
        self._score = score
        self._patience = patience
        self._name = name
        self.reset()

    def reset(self):
        """Return to the state before the first epoch."""
        self.best_epoch = self.best_score = self.best_parameters = None
        self.scores = []

    def __call__(self, epoch, parameters):
        """Score the parameters after an epoch; return the `Verdict`.

        Parameters
        ----------
        epoch : int
            Counted from 1.
        parameters : callable
            Returns the parameters.
        """
        parameters = parameters()
        score = float(self._score(parameters))
        self.scores.append(score)
        mean = float(np.mean([s for s in self.scores[-WINDOW:] if not np.isnan(s)] or np.nan))
        if np.isfinite(score) and mean >= (-np.inf if self.best_score is None else self.best_score):
            self.best_epoch, self.best_score = epoch, mean
            self._keep(parameters)
        return Verdict({self._name: score}, stop=epoch - (self.best_epoch or 0) >= self._patience)

    def state(self):
        """Return the state to resume from (`TrainingState`)."""
        facts = {name: getattr(self, name) for name in STATE}
        return TrainingState({"stopping": facts}, self._best())

    def restore(self, checkpoint, parameters):
        """Restore the state in a checkpoint.

        Parameters
        ----------
        checkpoint : Checkpoint
        parameters : mapping of str to ndarray
            Parameters of the shapes, types and memory orders to keep.

        Raises
        ------
        ModelFolderError
            If the checkpoint is damaged.
        """
        with checkpoint.checked():
            facts = checkpoint.facts["stopping"]
            self.scores, self.best_epoch, self.best_score = (facts[name] for name in STATE)
        if self.best_epoch is not None:
            self._keep(parameters)
            checkpoint.fill(self._best())

    def _best(self):
        # Integer arrays hold the places of sparse parameters, which do not change.
        best = (self.best_parameters or {}).items()
        return {f"best.{name}": value for name, value in best if value.dtype.kind == "f"}

    def _keep(self, parameters):
        if self.best_parameters is None:
            self.best_parameters = {name: np.copy(value, order="K") for name, value in parameters.items()}
        else:
            for name, value in parameters.items():
                np.copyto(self.best_parameters[name], value)
