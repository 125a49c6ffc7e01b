"""The estimator of BMLPL."""

from xmlgp.bmlpl.record import BMLPL
from xmlgp.estimators.classifier import Classifier

__all__ = ["BMLPLClassifier"]


class BMLPLClassifier(Classifier, model=BMLPL):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, utilities −log(1 − p).

    Parameters
    ----------
    **settings
        Those of `xmlgp train --model bmlpl`, with the same names and defaults; see
        `xmlgp.bmlpl.settings.BMLPLSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    topics_ : ndarray, K×T
        V of these: each column is a distribution over labels.
    history_ : list of dict
        For each pass `epoch`, `log_posterior` and `seconds`.
    n_features_in_ : int
        Number of features, D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    tuned_ : Tuned or None
        What `tune` or `xmlgp tune` chose, and for which scores.
    assignment_rule_ : AssignmentRule or None
        The threshold and the limit of `tuned_`.
    names_ : Names
        What the model folder calls labels and features, and what maps text to these; None each after `fit`.
    learned_ : list of dict
        What each `partial_fit` or `xmlgp learn` added after training: `N` points, `D` features and `K` labels, their
        `fingerprint` and `history`, with entries as in `history_`.
    """

    @property
    def topics_(self):
        """V, K×T."""
        return self.parameters_["topics"]
