"""The estimator of BMLPL, the model of topics of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.from_settings import with_settings_of
from xmlgp.models.bmlpl.record import BMLPL

__all__ = ["BMLPLClassifier"]


@with_settings_of(BMLPL)
class BMLPLClassifier(Classifier):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, utilities −log(1 − p). See `Classifier` for
    the other methods and attributes.

    Attributes
    ----------
    topics_ : ndarray, K×T
        V of `parameters_`: each column is a distribution over labels.
    """

    @property
    def topics_(self) -> NDArray[np.floating]:
        """V, K×T."""
        return self.parameters_["topics"]
