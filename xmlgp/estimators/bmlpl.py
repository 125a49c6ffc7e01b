"""The estimator of BMLPL."""

import numpy as np

from xmlgp.bmlpl.record import BMLPL
from xmlgp.estimators.classifier import Classifier

__all__ = ["BMLPLClassifier"]


class BMLPLClassifier(Classifier, model=BMLPL):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, utilities −log(1 − p). See `Classifier` for
    the other methods and attributes.

    Parameters
    ----------
    **settings
        Those of `xmlgp train --model bmlpl`, with the same names and defaults; see
        `xmlgp.bmlpl.settings.BMLPLSettings`.

    Attributes
    ----------
    topics_ : ndarray, K×T
        V of `parameters_`: each column is a distribution over labels.
    """

    @property
    def topics_(self) -> np.ndarray:
        """V, K×T."""
        return self.parameters_["topics"]
