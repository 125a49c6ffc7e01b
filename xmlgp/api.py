"""The functions of the package: what the command line does, for Python users. `import xmlgp` has all of it."""

from xmlgp.inputs.source import Source
from xmlgp.runs.evaluate import Comparison, Evaluation, compare, evaluate
from xmlgp.runs.learn import learn
from xmlgp.runs.predict import RANKED, Predictions, predict
from xmlgp.runs.report import report
from xmlgp.runs.split import split
from xmlgp.runs.train import preprocess, train
from xmlgp.runs.trained_model import TrainedModel, load
from xmlgp.runtime.threads import limit_threads
from xmlgp.serving.server import serve

__all__ = ["RANKED", "Comparison", "Evaluation", "Predictions", "Source"]
__all__ += ["TrainedModel", "compare", "evaluate", "learn", "limit_threads", "load", "predict", "preprocess"]
__all__ += ["report", "serve", "split", "train"]
