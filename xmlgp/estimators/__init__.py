"""xmlgp for Python users: an estimator for each model, and one for texts, which follow the scikit-learn API."""

from xmlgp.estimators.bmlpl import BMLPLClassifier
from xmlgp.estimators.from_settings import load_estimator
from xmlgp.estimators.gpc import GPCClassifier
from xmlgp.estimators.mlgpf import MLGPFClassifier
from xmlgp.estimators.text_tagger import TextTagger

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier", "TextTagger", "load_estimator"]
