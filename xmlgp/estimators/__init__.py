"""xmlgp for Python users: an estimator for each model, which follows the scikit-learn API."""

from xmlgp.estimators.bmlpl import BMLPLClassifier
from xmlgp.estimators.gpc import GPCClassifier
from xmlgp.estimators.mlgpf import MLGPFClassifier

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier"]
