"""The functions of the package: what the command line does, for Python users. `import xmlgp` has all of it."""

from xmlgp.inputs.source import Source
from xmlgp.prediction.tuning import Tuned
from xmlgp.runs.compare import Comparison, compare
from xmlgp.runs.evaluate import Evaluation, evaluate
from xmlgp.runs.learn import learn
from xmlgp.runs.predict import BAD_LINES, RANKED, Predictions, predict
from xmlgp.runs.report import report
from xmlgp.runs.split import Split, split
from xmlgp.runs.train import preprocess, train
from xmlgp.runs.trained_model import TrainedModel, load
from xmlgp.runs.tune import tune
from xmlgp.runtime.threads import limit_threads
from xmlgp.serving.server import serve

__all__ = ["BAD_LINES", "RANKED", "Comparison", "Evaluation", "Predictions", "Source", "Split"]
__all__ += ["TrainedModel", "Tuned", "compare", "evaluate", "learn", "limit_threads", "load", "predict", "preprocess"]
__all__ += ["report", "serve", "split", "train", "tune"]
