"""Early stopping: hold points out of training, rank their labels after each epoch, and keep the best parameters."""

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.training.checkpoints import TrainingState
from xmlgp.training.loop import Verdict

__all__ = ["WINDOW", "EarlyStopping", "hold_out", "ndcg_of_top"]

#: Scores that are averaged to compare epochs.
WINDOW = 5

#: Attributes of `EarlyStopping` that a checkpoint holds as facts.
STATE = ("scores", "best_epoch", "best_score")


def hold_out(count, share, random):
    """Divide points into those to train on and those to validate on, uniformly at random.

    Of N points round(share·N) are held out: of two or more at least one and never all, of fewer none.

    Parameters
    ----------
    count : int
        N.
    share : float
        From 0 to 1; with 0 all points are trained on, and nothing is drawn.
    random : numpy.random.Generator

    Returns
    -------
    training_rows, validation_rows : ndarray of int
        Ascending.
    """
    held = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held > 0:
        chosen[random.choice(count, held, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def ndcg_of_top(labels, blocks, k=5):
    """Return the mean nDCG@k of scores that come some points at a time, in percent.

    It is that of `evaluate_ranking`, which the k best of each point are handed to: N·k scores are kept, not N×K.

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
        Where the scores are of another number of points or labels, or no point has a label.
    """
    best = [_best(block, k) for block in blocks]
    return evaluate_ranking(vstack(best, format="csr"), labels, ks=(k,))[f"nDCG@{k}"]


def _best(scores, k):
    """Return the k highest scores of each point, equal ones by label, the lower first, as a csr_array, B×K."""
    count, label_count = scores.shape
    k = min(k, label_count)
    # Negated, what is no number comes last, as it does where rankings are measured.
    negated = -scores
    negated.partition(k - 1, axis=1)
    points, labels = np.nonzero(~(scores < -negated[:, k - 1 : k]))
    values = scores[points, labels]
    order = np.lexsort((-values, points))
    starts = np.searchsorted(points, np.arange(count))
    order = order[(starts[:, None] + np.arange(k)).ravel()]
    return csr_array((values[order], labels[order], np.arange(count + 1) * k), scores.shape)


class EarlyStopping:
    """Watches a score over training, keeps the best parameters, and ends it when none better come.

    It is what `train` calls after each epoch. Epochs are compared by the mean of the last `WINDOW` scores, less those
    that are no numbers: from one epoch to the next a score rises and falls by more than it gains in ten, and the
    highest single one is mere luck. Of equal means the later epoch is better, being closer to the top of the
    bound; one without a score is never better.

    Parameters
    ----------
    score : callable
        `score(parameters)`, higher for better: nDCG@5 of the points held out, for instance.
    patience : int
        Epochs in a row without a better score that end training; at least 1.
    name : str
        Of the score in the history of training.

    Attributes
    ----------
    best_epoch : int or None
        Counted from 1; None as long as no score was a number.
    best_score : float or None
        The mean at that epoch.
    best_parameters : dict of str to ndarray or None
        Those of `best_epoch`, each in the memory order that it is trained in. A better epoch overwrites the arrays.
    scores : list of float
        One an epoch.
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
        """Score the parameters of an epoch; return the `Verdict`.

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
        """Return what it goes on from (`State`)."""
        facts = {name: getattr(self, name) for name in STATE}
        return TrainingState({"stopping": facts}, self._best())

    def restore(self, checkpoint, parameters):
        """Take up where a state was left.

        Parameters
        ----------
        checkpoint : Checkpoint
        parameters : mapping of str to ndarray
            Such as it keeps.

        Raises
        ------
        ModelFolderError
            Where the checkpoint is damaged.
        """
        with checkpoint.checked():
            facts = checkpoint.facts["stopping"]
            self.scores, self.best_epoch, self.best_score = (facts[name] for name in STATE)
        if self.best_epoch is not None:
            self._keep(parameters)
            checkpoint.fill(self._best())

    def _best(self):
        # What is not of floating point says where parameters belong, and stays.
        best = (self.best_parameters or {}).items()
        return {f"best.{name}": value for name, value in best if value.dtype.kind == "f"}

    def _keep(self, parameters):
        if self.best_parameters is None:
            self.best_parameters = {name: np.copy(value, order="K") for name, value in parameters.items()}
        else:
            for name, value in parameters.items():
                np.copyto(self.best_parameters[name], value)
