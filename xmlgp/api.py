"""The façade: what the command line does, for Python users. `import xmlgp` has all of it.

A name is imported when it is first used: a command needs one or two of them.
"""

from typing import TYPE_CHECKING

from xmlgp.runtime.late_imports import imported

if TYPE_CHECKING:
    from xmlgp.inputs.source import Source
    from xmlgp.prediction.tuning import Tuned
    from xmlgp.runs.compare import Comparison, compare
    from xmlgp.runs.evaluate import Evaluation, evaluate
    from xmlgp.runs.learn import learn
    from xmlgp.runs.pack import PackedModel, pack
    from xmlgp.runs.predict import BAD_LINES, RANKED, Predictions, predict
    from xmlgp.runs.report import report
    from xmlgp.runs.search import SearchResult, search
    from xmlgp.runs.split import Split, split
    from xmlgp.runs.train import preprocess, train
    from xmlgp.runs.trained_model import TrainedModel, load
    from xmlgp.runs.tune import tune
    from xmlgp.runtime.threads import limit_threads
    from xmlgp.serving.server import LOGS, serve

__all__ = ["BAD_LINES", "LOGS", "RANKED", "Comparison", "Evaluation", "PackedModel", "Predictions", "SearchResult"]
__all__ += ["Source", "Split", "TrainedModel", "Tuned", "compare", "evaluate", "learn", "limit_threads", "load"]
__all__ += ["pack", "predict", "preprocess", "report", "search", "serve", "split", "train", "tune"]

#: The modules of the names.
MODULES = {
    "inputs.source": ("Source",),
    "prediction.tuning": ("Tuned",),
    "runs.compare": ("Comparison", "compare"),
    "runs.evaluate": ("Evaluation", "evaluate"),
    "runs.learn": ("learn",),
    "runs.pack": ("PackedModel", "pack"),
    "runs.predict": ("BAD_LINES", "RANKED", "Predictions", "predict"),
    "runs.report": ("report",),
    "runs.search": ("SearchResult", "search"),
    "runs.split": ("Split", "split"),
    "runs.train": ("preprocess", "train"),
    "runs.trained_model": ("TrainedModel", "load"),
    "runs.tune": ("tune",),
    "runtime.threads": ("limit_threads",),
    "serving.server": ("LOGS", "serve"),
}


def __getattr__(name: str) -> object:
    for module, names in MODULES.items():
        if name in names:
            return imported(f"xmlgp.{module}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
