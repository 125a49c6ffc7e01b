"""The functions of xmlgp for Python users, which `import xmlgp` gives under the same names."""

from xmlgp.api.evaluate import Comparison, Evaluation, compare, evaluate
from xmlgp.api.learn import learn
from xmlgp.api.predict import Predictions, matrix, predict, write
from xmlgp.api.preprocess import preprocess
from xmlgp.api.source import Source
from xmlgp.api.split import split
from xmlgp.api.train import train
from xmlgp.api.trained_model import TrainedModel, load
from xmlgp.reporting.report import report
from xmlgp.runtime.threads import limit_threads
from xmlgp.serving.server import serve

__all__ = ["Comparison", "Evaluation", "Predictions", "Source", "TrainedModel"]
__all__ += ["compare", "evaluate", "learn", "limit_threads", "load", "matrix", "predict", "preprocess"]
__all__ += ["report", "serve", "split", "train", "write"]
