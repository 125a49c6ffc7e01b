"""The loop: what it tells, that it goes on bit for bit whatever the inference, and which checkpoints it refuses."""

import contextlib
import itertools
import math
import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from tests.gpc.dense_gpc import THETA, random_problem
from tests.training.interrupting import Interrupting, in_pieces
from tests.training.lying import DAMAGES, ODD, change, gone_on, left, refused, spoilt
from xmlgp.errors import ModelFolderError, NumericalError
from xmlgp.gpc import train as module
from xmlgp.gpc import variational
from xmlgp.gpc.model import GPC
from xmlgp.gpc.settings import GPCSettings
from xmlgp.gpc.train import train_gpc
from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.training.checkpoints import Checkpoint, Checkpoints, read_checkpoint

N, D, M = 40, 3, 8
INFERENCES = list(module.INFERENCES)
#: Minibatches of a pass of svi-adadelta.
BATCHES = 3
ITERATIONS = 5

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(inference, seed=0, sparse=False, **chosen):
    """What `train_gpc` takes."""
    problem = random_problem(3, N, M, D, absent=0.5 * sparse)
    options = {"batch_size": 15} if inference == "svi-adadelta" else {}
    settings = GPCSettings(inference=inference, **{"iterations": ITERATIONS, "seed": seed} | options | chosen)
    return problem.coordinates(sparse), sp.csr_array(problem.positive[:, None]), problem.inducing, settings


@pytest.fixture(autouse=True)
def _to_the_last_iteration(monkeypatch):
    """Nothing ends before its last iteration, unless a test is of that."""
    monkeypatch.setattr(variational, "TOLERANCE", -math.inf)
    monkeypatch.setattr(variational, "PATIENCE", 10**6)


@pytest.fixture
def ending(monkeypatch):
    """What has little left to gain ends."""
    monkeypatch.setattr(variational, "TOLERANCE", 1e-3)
    monkeypatch.setattr(variational, "PATIENCE", 2)


def untimed(history):
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in history]


def agree(found, expected):
    (parameters, history), (others, other_history) = found, expected
    assert list(parameters) == list(others)
    for name, value in others.items():
        assert parameters[name].dtype == value.dtype
        assert parameters[name].tobytes() == value.tobytes(), name
    assert untimed(history) == untimed(other_history)


def steps_a_pass(inference):
    return BATCHES if inference == "svi-adadelta" else 1


def fits(parameters):
    """Whether they are parameters of a model, all of them numbers."""
    shapes = {"inducing": (M, D), "posterior.mean": (M, 1), "posterior.factor": (1, M, M)}
    return (
        list(parameters) == GPC().parameter_names()
        and all(value.shape == shapes.get(name, ()) for name, value in parameters.items())
        and all(value.dtype == np.float64 and np.isfinite(value).all() for value in parameters.values())
    )


@any_inference
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_history_and_the_parameters(inference, sparse):
    problem = prepared(inference, sparse=sparse)
    parameters, history = train_gpc(*problem)
    assert [set(epoch) for epoch in history] == [{"epoch", "bound", "seconds"}] * ITERATIONS
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["bound"]) is float and epoch["bound"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert fits(parameters)
    np.testing.assert_array_equal(parameters["inducing"], problem[2])
    assert not np.triu(parameters["posterior.factor"][0], 1).any()


@any_inference
def test_what_it_is_given_stays_as_it_is(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    before = [coordinates.all().copy(), labels.copy(), inducing.copy()]
    train_gpc(coordinates, labels, inducing, settings)
    np.testing.assert_array_equal(coordinates.all(), before[0])
    assert (labels != before[1]).nnz == 0
    np.testing.assert_array_equal(inducing, before[2])


@any_inference
def test_inducing_inputs_in_single_precision_are_the_same_numbers(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    inducing = inducing.astype(np.float32)
    agree(train_gpc(coordinates, labels, inducing, settings), train_gpc(coordinates, labels, inducing * 1.0, settings))
    assert fits(train_gpc(coordinates, labels, inducing, settings)[0])


@any_inference
@pytest.mark.usefixtures("ending")
def test_as_many_iterations_as_usual_at_most(inference):
    problem = prepared(inference, iterations=None)
    _, history = train_gpc(*problem)
    most = problem[-1].passes
    assert len(history) == most if inference == "svi-adadelta" else 1 < len(history) < most


@any_inference
def test_the_same_once_more(inference):
    first, again, other = (train_gpc(*prepared(inference, seed=seed)) for seed in (0, 0, 1))
    agree(again, first)
    if inference == "svi-adadelta":
        assert first[0]["posterior.mean"].tobytes() != other[0]["posterior.mean"].tobytes()
    else:  # nothing is drawn
        agree(other, first)


@any_inference
def test_every_step_is_reported(inference):
    told = []

    class Bar:
        def update(self, count=1, **facts):
            told.append((count, facts))

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        told.append((label, total, unit))
        yield Bar()

    train_gpc(*prepared(inference), progress)
    steps = steps_a_pass(inference)
    assert told[0] == ("train", ITERATIONS * steps, "step")
    assert [count for count, _ in told[1:]] == [1] * ITERATIONS * steps
    assert [facts["epoch"] for _, facts in told[1:]] == [f"{1 + i // steps}/5" for i in range(ITERATIONS * steps)]
    assert all(float(facts["bound"]) < 0 for _, facts in told[1:])


@any_inference
def test_the_parameters_after_each_pass(inference):
    seen = {}

    def after_pass(epoch, parameters):
        seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = prepared(inference)
    found = train_gpc(*problem, after_pass=after_pass)
    agree(found, train_gpc(*problem))
    assert list(seen) == [1, 2, 3, 4, 5]
    assert all(map(fits, seen.values()))
    assert seen[1][THETA[0]] != seen[5][THETA[0]]
    agree((seen[5], []), (found[0], []))


@any_inference
def test_it_ends_where_what_is_called_after_a_pass_says_so(inference):
    found = train_gpc(*prepared(inference), after_pass=lambda epoch, parameters: epoch == 2)
    agree(found, train_gpc(*prepared(inference, iterations=2)))


#: Every choice that has a state of its own.
CHOICES = [{}, {"sparse": True}, {"nodes": 30}, {"iterations": 8}]
SETTINGS = [{"inference": inference} | chosen for inference, chosen in itertools.product(INFERENCES, CHOICES)]
SETTINGS += [{"inference": "svi-adadelta", "learning_rate": 2.0}, {"inference": "svi-adadelta", "batch_size": 7}]


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()))
def test_interrupted_after_every_step(tmp_path, chosen):
    problem = prepared(**chosen)
    found, interruptions = in_pieces(train_gpc, problem, tmp_path / "checkpoint", itertools.repeat(1))
    agree(found, train_gpc(*problem))
    batches = -(-N // problem[-1].batch_size) if chosen["inference"] == "svi-adadelta" else 1
    assert interruptions == batches * problem[-1].passes


@any_inference
@pytest.mark.usefixtures("ending")
def test_interrupted_where_it_ends_early(tmp_path, inference):
    problem = prepared(inference, iterations=60)
    expected = train_gpc(*problem)
    assert len(expected[1]) < 60 or inference == "svi-adadelta"
    agree(in_pieces(train_gpc, problem, tmp_path / "checkpoint", itertools.repeat(1))[0], expected)


@any_inference
def test_interrupted_here_and_there(tmp_path, inference):
    problem = prepared(inference, iterations=9)
    expected = train_gpc(*problem)
    for seed in range(3):
        random = np.random.default_rng(seed)
        lengths = iter(lambda random=random: int(random.integers(1, 6)), 0)
        agree(in_pieces(train_gpc, problem, tmp_path / f"{seed}", lengths)[0], expected)


@any_inference
def test_what_was_not_interrupted_is_not_disturbed_by_checkpoints(tmp_path, inference):
    problem, path = prepared(inference), tmp_path / "checkpoint"
    agree(train_gpc(*problem, checkpoints=Checkpoints(path, {}, 1e-9)), train_gpc(*problem))
    assert read_checkpoint(path).facts["step"]


@any_inference
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_step(tmp_path, monkeypatch, inference, number):
    path, kind, steps = tmp_path / "checkpoint", module.INFERENCES[inference], []
    step = kind.step

    def interrupted(self, *arguments):
        steps.append(arguments)
        if len(steps) == 2:
            os.kill(os.getpid(), number)
        return step(self, *arguments)

    problem = prepared(inference)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", interrupted)
        with pytest.raises(Interrupted) as caught, handle_signals():
            train_gpc(*problem, checkpoints=Checkpoints(path, {}, 1e9))
    assert caught.value.number == number
    assert len(steps) == 2
    assert read_checkpoint(path).facts["step"] == 2
    resumed = Checkpoints(path, {}, 1e9, read_checkpoint(path))
    agree(train_gpc(*problem, checkpoints=resumed), train_gpc(*problem))


ADVICE = {"svi-adadelta": "try a lower --learning-rate"}


@any_inference
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_bound_that_is_lost(monkeypatch, inference, value):
    steps, kind = itertools.count(), module.INFERENCES[inference]
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        train_gpc(*prepared(inference))
    advice = ADVICE.get(inference, "try another --inference")
    assert str(caught.value) == f"after 2 training steps: the bound is not finite; {advice}"


@any_inference
def test_what_a_step_says_of_lost_numbers_is_told_with_the_step(monkeypatch, inference):
    def losing(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(module.INFERENCES[inference], "step", losing)
    with pytest.raises(NumericalError, match="^after 0 training steps: it has no factor; try a"):
        train_gpc(*prepared(inference))


@any_inference
def test_a_start_that_is_beyond_all_limits(inference):
    coordinates, labels, inducing, settings = prepared(inference)
    with pytest.raises(NumericalError, match="^before the first step: the lengthscale is 1"):
        train_gpc(coordinates, labels, 1e100 * inducing, settings)


@any_inference
def test_parameters_that_are_lost_are_not_returned(monkeypatch, inference):
    kind = module.INFERENCES[inference]
    parameters = kind.parameters
    monkeypatch.setattr(
        kind, "parameters", lambda self, passes: parameters(self, passes) | {"posterior.mean": np.full((M, 1), np.nan)}
    )
    with pytest.raises(NumericalError, match=r"^after \d+ training steps: posterior.mean is not finite; try a"):
        train_gpc(*prepared(inference))


def test_too_high_a_learning_rate_is_told_of():
    with pytest.raises(NumericalError, match="; try a lower --learning-rate$"):
        train_gpc(*prepared("svi-adadelta", learning_rate=1e300))


# Checkpoints that a stranger made.


PROBLEMS = {inference: prepared(inference) for inference in INFERENCES}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The states that the trainings were left in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variational, "TOLERANCE", -math.inf)
        patch.setattr(variational, "PATIENCE", 10**6)
        return {
            inference: left(train_gpc, problem, tmp_path_factory.mktemp("training"))
            for inference, problem in PROBLEMS.items()
        }


@pytest.fixture
def go_on(tmp_path, states):
    """Return a function that goes on from the state of a training, changed by another one."""

    def call(inference, **changed):
        parameters, history = gone_on(
            train_gpc, PROBLEMS[inference], tmp_path / "checkpoint", states[inference], **changed
        )
        assert all(math.isfinite(epoch["bound"]) for epoch in history)
        return parameters

    return call


@any_inference
def test_nothing_is_wrong_with_what_is_changed_below(go_on, inference):
    agree((go_on(inference), []), (train_gpc(*PROBLEMS[inference])[0], []))


@any_inference
@pytest.mark.parametrize("fact", ["step", "steps", "done", "estimates", "seconds", "history", "random"])
def test_facts_of_another_type(go_on, inference, fact):
    for value in ODD:
        refused(go_on, inference, facts=change(fact, to=value))


@any_inference
def test_a_history_of_another_model(go_on, inference):
    refused(go_on, inference, facts=change("history", 0, to={"epoch": 1, "log_posterior": -1.0, "seconds": 0.5}))


@any_inference
@pytest.mark.parametrize("damage", DAMAGES)
def test_arrays_of_another_kind(go_on, states, inference, damage):
    for array in states[inference].arrays:
        refused(go_on, inference, arrays=spoilt(array, damage))


@any_inference
@pytest.mark.parametrize("value", [1e308, -1e308, 1e160, -1.0, 0.0, 1e-300, 1.0, 50.0, -50.0])
def test_arrays_that_could_be_train_to_a_model_or_not_at_all(go_on, states, inference, value):
    for array in states[inference].arrays:

        def arrays(arrays, array=array):
            arrays[array].fill(value)

        with contextlib.suppress(NumericalError, ModelFolderError):
            assert fits(go_on(inference, arrays=arrays)), array


@any_inference
def test_the_state_of_another_inference_is_refused_where_it_is_another(go_on, states, inference):
    for other in set(INFERENCES) - {inference}:

        def arrays(arrays, other=other):
            arrays.clear()
            arrays |= states[other].arrays

        # The ways to the bound of Jaakkola and Jordan go on from the same; Taylor's has more.
        if inference in ("svi-adadelta", "vi-taylor") or other == "svi-adadelta":
            refused(go_on, inference, arrays=arrays)
    with pytest.raises(ModelFolderError):
        train_gpc(*PROBLEMS[inference], checkpoints=Checkpoints(None, {}, 1, Checkpoint(None, {}, {})))


@any_inference
def test_the_state_of_a_training_on_other_points_is_refused(tmp_path, states, inference):
    path = tmp_path / "checkpoint"
    Checkpoints(path, {}, 1).write(states[inference])
    for count, inducing in ((N + 1, M), (N, M + 1)):
        problem = random_problem(3, count, inducing, D)
        others = problem.coordinates(), sp.csr_array(problem.positive[:, None]), problem.inducing
        # Of N the moving parameters of svi-adadelta say nothing but how many steps there are; of M those of the
        # others do not.
        if (inference == "svi-adadelta") == (inducing != M):
            resumed = Checkpoints(path, {}, 1, read_checkpoint(path))
            refused(train_gpc, *others, PROBLEMS[inference][-1], checkpoints=resumed)


def test_the_bar_goes_on_where_training_was_interrupted(tmp_path):
    told = []

    class Bar:
        def update(self, count=1, **facts):
            told.append(count)

    problem, path = prepared("svi-adadelta"), tmp_path / "checkpoint"
    checkpoints = Interrupting(path, {}, 0)
    checkpoints.steps = 7
    with pytest.raises(Interrupted):
        train_gpc(*problem, checkpoints=checkpoints)
    resumed = Checkpoints(path, {}, 0, read_checkpoint(path))
    train_gpc(*problem, lambda *_, **options: contextlib.nullcontext(Bar()), checkpoints=resumed)
    assert told == [7] + [1] * (ITERATIONS * BATCHES - 7)
