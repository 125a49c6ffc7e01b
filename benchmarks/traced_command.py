"""An xmlgp command that writes to a file when each of its stages begins.

    python benchmarks/traced_command.py FILE ARGUMENT ...

Each line of FILE is a time, the processor seconds of this process so far, the stage, and the epoch or sweep of
training. A stage lasts until the next one begins. Training and prediction have the same stages on one process and on a
Dask cluster; a stage that only one of them has is in another one of the other.

The workers of a local cluster import this file as well, so it imports no more than the command.
"""

from xmlgp.runtime.threads import prefer_avx512

# As the command does, before the first import of NumPy.
prefer_avx512()

import functools  # noqa: E402
import importlib  # noqa: E402
import inspect  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

#: Functions that begin a stage: module, name, stage, and the stage that follows unless another function begins one.
STAGES = {
    "train": [
        ("xmlgp.cli.train", "read_training_data", "reading", None),
        ("xmlgp.runs.train", "preprocess_data", "preprocessing", "starting values"),
        ("xmlgp.mlgpf.train", "weigh_points", "weighting", "starting values"),
        ("xmlgp.mlgpf.stochastic", "StochasticAscent.step", "steps", None),
        ("xmlgp.mlgpf.held_out", "HeldOutChoices._ranked", "held-out points", None),
        ("xmlgp.mlgpf.weight_space_ascent", "initial_label_weights", "initial label weights", None),
        ("xmlgp.mlgpf.weight_space_ascent", "WeightSpaceAscent._latent_functions", "latent functions", None),
        ("xmlgp.mlgpf.sweep", "listed_by_label", "pairs", None),
        ("xmlgp.mlgpf.sweep", "Sweep.list_negatives", "shortlists", None),
        ("xmlgp.mlgpf.sweep", "Sweep.update_weights", "label weights", None),
        ("xmlgp.mlgpf.held_out", "HeldOutChoices._calibrate", "calibration", None),
        ("xmlgp.mlgpf.train", "fit_exact_gp", "regression", None),
        ("xmlgp.runs.train", "ModelFolder.write", "writing", "ending"),
    ],
    "predict": [("xmlgp.cli.predict", "predict_blocks", "predicting", "ending")],
}

#: Functions that tell the epoch or sweep.
PLACES = [
    ("xmlgp.training.inference", "Inference.place"),
    ("xmlgp.mlgpf.weight_space_ascent", "WeightSpaceAscent.place"),
]


class Trace:
    """Writes the stages of this process to a file.

    Parameters
    ----------
    stream : file object
        For text.
    """

    def __init__(self, stream):
        self._stream, self._stage, self._place, self._open = stream, None, "", []
        self._written = None
        self.begin("starting")

    def begin(self, stage):
        """Begin a stage; that of the next epoch or sweep is another one."""
        self._stage = stage
        if (stage, self._place) != self._written:
            self._written = stage, self._place
            line = f"{time.time():.6f}", f"{time.process_time():.6f}", *self._written
            print(*line, sep="\t", file=self._stream, flush=True)

    def watch(self, stages, places):
        """Let functions begin stages, and tell where training is; see `STAGES` and `PLACES`."""
        for module, name, stage, following in stages:
            _replace(module, name, functools.partial(self._in_stage, stage, following))
        for module, name in places:
            _replace(module, name, self._told)

    def _enter(self, stage):
        self._open.append(self._stage)
        self.begin(stage)

    def _leave(self, following):
        before = self._open.pop()
        # The outermost function's stage goes on: what comes between two steps belongs to them.
        if following or self._open:
            self.begin(following or before)

    def _in_stage(self, stage, following, function):
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def watched(*arguments, **options):
                self._enter(stage)
                yield from function(*arguments, **options)
                self._leave(following)
        else:

            @functools.wraps(function)
            def watched(*arguments, **options):
                self._enter(stage)
                try:
                    return function(*arguments, **options)
                finally:
                    self._leave(following)

        return watched

    def _told(self, function):
        @functools.wraps(function)
        def watched(*arguments):
            found = function(*arguments)
            self._place = ", ".join(f"{name} {value}" for name, value in found.items())
            return found

        return watched


def _replace(module, name, make):
    """Replace a function of a module or of one of its classes."""
    owner = importlib.import_module(module)
    *classes, name = name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    function = getattr(owner, name)
    # A class method is bound already.
    setattr(owner, name, staticmethod(make(function)) if inspect.ismethod(function) else make(function))


def main():
    file, *arguments = sys.argv[1:]
    with open(file, "w", encoding="utf-8") as stream:
        trace = Trace(stream)
        trace.watch(STAGES.get(arguments[0], []), PLACES if arguments[0] == "train" else [])
        from xmlgp.cli import main as xmlgp

        xmlgp(arguments, prog_name="xmlgp")


if __name__ == "__main__":
    main()
