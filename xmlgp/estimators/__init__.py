"""xmlgp for Python users: an estimator for each model, and one for texts, which follow the scikit-learn API."""

from xmlgp.estimators.classifier import load_estimator
from xmlgp.estimators.models import BMLPLClassifier, GPCClassifier, MLGPFClassifier
from xmlgp.estimators.text_tagger import TextTagger

__all__ = ["BMLPLClassifier", "GPCClassifier", "MLGPFClassifier", "TextTagger", "load_estimator"]
