"""xmlgp for Python users: an estimator for each model, which follows the scikit-learn API."""

from xmlgp.bmlpl.estimator import BMLPLClassifier
from xmlgp.gpc.estimator import GPCClassifier
from xmlgp.mlgpf.estimator import MLGPFClassifier

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier"]
