"""The estimator of BMLPL, the model of topics of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.estimator import RandomState
from xmlgp.models.bmlpl.record import BMLPL

__all__ = ["BMLPLClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class BMLPLClassifier(Classifier, model=BMLPL):
    """Multi-label classification by topics of labels, learned from positive labels alone ([B] section 2).

    Probabilities are p = 1 − Π_t (1 + v_t e^ψ_t)^(−r_t) with ψ = Wᵀx + b, utilities −log(1 − p). The parameters are
    the settings of `BMLPLSettings`, with `random_state` for `seed`, `n_jobs` and `keep_points`.
    See `Classifier` for the other methods and attributes.

    Attributes
    ----------
    topics_ : ndarray, K×T
        V of `parameters_`: each column is a distribution over labels.
    """

    weighting: str = "root-idf"
    inference: str = "em-cg"
    topics: int | None = None
    iterations: int | None = None
    cg_steps: int = 2
    concentration: float = 0.01
    precision: float = 0.3
    learn_precision: bool = False
    burn_in: int | None = None
    thinning: int = 5
    revealed: float = 1.0
    batch_size: int = 500
    dtype: str = "float32"
    random_state: RandomState = 0
    n_jobs: int | None = None
    keep_points: bool = True

    @property
    def topics_(self) -> NDArray[np.floating]:
        """V, K×T."""
        return self.parameters_["topics"]
