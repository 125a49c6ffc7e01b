"""The contract of every inference method, seen through the records of the models."""

import functools
import math
import os
import signal
from typing import NamedTuple

import numpy as np
import pytest

from tests.problems import paired_dataset, small_dataset
from tests.training.interrupting import EveryStep, Recorder, assert_same_result, replace_steps, train_with_interruptions
from xmlgp.models.gpc import inference
from xmlgp.models.mlgpf import sweep
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import NumericalError
from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.runtime.progress import silent
from xmlgp.training.checkpoints import CheckpointWriter, read_checkpoint
from xmlgp.training.loop import Loop

#: Settings for the data sets below. Points are held out in the first, and there are enough of them to judge.
SMALL = {
    "mlgpf": {"inducing_count": 8, "factors": 4, "epochs": 2, "batch_size": 50, "basis_size": 9},
    "bmlpl": {"topics": 4, "iterations": 5, "batch_size": 16, "burn_in": 1, "thinning": 2},
    "gpc": {"inducing_count": 8, "iterations": 5, "batch_size": 15},
}
DATA = {"mlgpf": paired_dataset(150, K=12), "bmlpl": small_dataset(), "gpc": small_dataset(D=3, K=1)}


class Case(NamedTuple):
    """Settings of a model."""

    model: str
    chosen: tuple

    @property
    def settings(self):
        return MODELS[self.model].settings(**SMALL[self.model] | dict(self.chosen))

    def __str__(self):
        return " ".join([self.model, *(f"{k}={v}" for k, v in self.chosen)])


def case(model, **chosen):
    return Case(model, tuple(chosen.items()))


#: The inference methods of each model.
METHODS = [
    case("mlgpf", inducing="free"),
    case("mlgpf", inducing="features", label_weights=True),
    *(case(model, inference=name) for model in ("bmlpl", "gpc") for name in MODELS[model].settings.inferences),
]

#: Settings that add state or random numbers.
VARIANTS = [
    case("mlgpf", inducing="free", posterior="diagonal", negatives=3, optimiser="adadelta", calibration=False),
    case("mlgpf", inducing="subspace", posterior="cholesky", negatives=3, dtype="float64"),
    case("mlgpf", inducing="free", inducing_fixed=True, kernel="se+linear"),
    case("mlgpf", inducing="features", label_weights=True, label_sample=3, optimiser="adagrad"),
    case("mlgpf", inducing="features", label_weights=False, dtype="float64", calibration=False),
    case("bmlpl", inference="em-cg", learn_precision=True, iterations=14),
    case("bmlpl", inference="gibbs", learn_precision=True, iterations=14),
    case("bmlpl", inference="online-em", topics=9, weighting="none", batch_size=7, dtype="float64"),
    case("gpc", inference="svi-adadelta", learning_rate=2.0, batch_size=7),
    case("gpc", inference="vi-taylor", nodes=30),
]

every_method = pytest.mark.parametrize("case", METHODS, ids=str)

#: The advice when training diverges.
ADVICE = {
    "mlgpf": "try a lower learning_rate or another weighting",
    "bmlpl": "try another weighting or precision",
    "gpc": "try another inference",
}


def advice(case):
    return "try a lower learning_rate" if ("inference", "svi-adadelta") in case.chosen else ADVICE[case.model]


@pytest.fixture(autouse=True)
def _all_steps(monkeypatch):
    """Sweeps have several blocks, and no training stops early."""
    monkeypatch.setattr(sweep, "POINT_BLOCK", 60)
    monkeypatch.setattr(sweep, "LABEL_BLOCK", 5)
    monkeypatch.setattr(inference, "TOLERANCE", -math.inf)
    monkeypatch.setattr(inference, "PATIENCE", 10**6)


def train(case, progress=silent, checkpoints=None):
    """Train; return the parameters and the history."""
    data, record = DATA[case.model], MODELS[case.model]
    preprocessed = record.preprocess(data.features, case.settings, silent)
    return record.train(data.features, data.labels, preprocessed, case.settings, progress, checkpoints)[:2]


@functools.cache
def expected(case):
    """Return the result of training without interruption."""
    return train(case)


@functools.cache
def steps_by_epoch(case):
    """Return the number of steps in each epoch and sweep."""
    counts, end_epoch = [], Loop._end_epoch

    def counted(loop, after_epoch):
        # Without an objective, it is no epoch of the history.
        counts.append(loop._done if loop._estimates else counts.pop() + loop._done)
        end_epoch(loop, after_epoch)

    recorder, result = Recorder(), expected(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_end_epoch", counted)
        assert_same_result(train(case, recorder), result)
    assert recorder.shares.pop("writing") == [None]
    assert sum(counts) <= sum(map(len, recorder.shares.values())) <= sum(counts) + 1
    return counts


@every_method
def test_every_epoch_is_in_the_history_and_every_step_is_shown(case):
    parameters, history = expected(case)
    assert len(steps_by_epoch(case)) == len(history)
    assert [epoch["epoch"] for epoch in history] == list(range(1, len(history) + 1))
    objectives = [epoch[MODELS[case.model].objective] for epoch in history]
    assert all(type(value) is float and math.isfinite(value) for value in objectives)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert all(np.isfinite(value).all() for value in parameters.values())


@every_method
def test_the_result_depends_on_the_seed_alone(case):
    again, other = train(case), train(case._replace(chosen=(*case.chosen, ("seed", 1))))
    assert_same_result(again, expected(case))
    same = all(value.tobytes() == other[0][name].tobytes() for name, value in again[0].items())
    # These methods of GPC draw no random numbers but those of the inducing inputs, here equal for all seeds.
    assert not same or case.model == "gpc"


@every_method
def test_the_parameters_of_each_epoch_can_be_taken_without_changing_the_result(monkeypatch, case):
    seen, run = {}, Loop.run

    def hooked(self, progress, after_epoch=None, *others, **options):
        def both(epoch, parameters):
            if epoch > 1:  # Gibbs sampling has no samples before
                seen[epoch] = {name: value.copy() for name, value in parameters().items()}
            if after_epoch:
                after_epoch(epoch, parameters)

        return run(self, progress, both, *others, **options)

    parameters, history = expected(case)
    monkeypatch.setattr(Loop, "run", hooked)
    assert_same_result(train(case), (parameters, history))
    assert list(seen) == [epoch["epoch"] for epoch in history[1:]]
    if len(seen) > 1:
        # Later epochs may have more parameters, and parameters of more features.
        assert any(
            name not in seen[2] or not np.array_equal(value, seen[2][name])
            for name, value in seen[len(history)].items()
        )


@pytest.mark.parametrize("case", [*METHODS, *VARIANTS], ids=str)
def test_resuming_gives_the_same_result(tmp_path, case):
    ends = np.cumsum(steps_by_epoch(case)).tolist()
    # Every step of a short training; otherwise around the first step and the ends of epochs, and in between.
    stops = {stop for end in [0, *ends] for stop in (end - 1, end, end + 1)} | set(
        range(0, ends[-1], 1 + ends[-1] // 60)
    )
    stops = sorted(stop for stop in stops if 0 < stop <= ends[-1])
    lengths = [*np.diff([0, *stops]).tolist(), 1]
    found, interruptions = train_with_interruptions(train, (case,), tmp_path / "checkpoint", lengths)
    assert_same_result(found, expected(case))
    assert interruptions == len(stops)


@every_method
def test_a_signal_ends_training_after_its_step(tmp_path, monkeypatch, case):
    path, steps = tmp_path / "checkpoint", sum(steps_by_epoch(case))

    def signalled(inference, step, number):
        if number == steps - 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return step()

    with monkeypatch.context() as patch:
        replace_steps(patch, signalled)
        with pytest.raises(Interrupted) as caught, handle_signals():
            train(case, checkpoints=CheckpointWriter(path, {}, 1e9))
    assert caught.value.number == signal.SIGTERM
    assert read_checkpoint(path).facts["step"] == steps - 1
    assert_same_result(train(case, checkpoints=CheckpointWriter(path, {}, 1e9, read_checkpoint(path))), expected(case))


#: Steps after which every attempt diverges.
STEPS = 2


@every_method
def test_a_non_finite_objective_or_the_error_of_a_step_ends_training_with_advice(monkeypatch, case):
    bad = (math.nan, -math.inf, NumericalError("it has no factor"))[METHODS.index(case) % 3]

    def failing(inference, step, number):
        if number == STEPS and isinstance(bad, NumericalError):
            raise bad
        return bad if number == STEPS else step()

    replace_steps(monkeypatch, failing)
    with pytest.raises(NumericalError) as caught:
        train(case)
    objective = MODELS[case.model].objective.replace("_", " ")
    reason = bad if isinstance(bad, NumericalError) else f"the {objective} is not finite"
    assert str(caught.value).startswith(f"training diverged after {STEPS} steps: {reason}")
    assert str(caught.value).endswith(f"; {advice(case)}")


@every_method
def test_non_finite_parameters_are_neither_saved_nor_returned(tmp_path, monkeypatch, case):
    path = tmp_path / "checkpoint"

    def spoiled(inference, step, number):
        value = step()
        if number == STEPS - 1:
            for name, array in inference.arrays().items():
                if array.dtype.kind == "f" and not name.startswith("optimiser."):
                    array[...] = math.nan
        return value

    replace_steps(monkeypatch, spoiled)
    with pytest.raises(NumericalError, match=r"^training diverged after 2 steps: [\w.]+ is not finite"):
        train(case, checkpoints=EveryStep(path))
    assert not path.exists() or read_checkpoint(path).facts["step"] < STEPS
    with pytest.raises(NumericalError, match=r"^training diverged after \d+ steps: "):
        train(case)
