"""The estimator of MLGPF."""

from xmlgp.classifier import Classifier
from xmlgp.mlgpf.record import MLGPF

__all__ = ["MLGPFClassifier"]


class MLGPFClassifier(Classifier, model=MLGPF):
    """Multi-label classification by the Gaussian-process factor model f = Φ h + b ([S] section 3, [L] section 3).

    Utilities are the means f̄, probabilities E σ(f), integrated over the posterior.

    Parameters
    ----------
    **settings
        Those of `xmlgp train --model mlgpf`, with the same names and defaults; see
        `xmlgp.mlgpf.settings.MLGPFSettings`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each epoch `epoch`, `bound` and `seconds`.
    validation_history_ : list of dict or None
        The same, with `ndcg@5`, of the training run with held-out points; None where no points were held out.
    n_features_in_ : int
        Number of features, D.
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    """
