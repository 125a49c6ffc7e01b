"""The loop: what it tells, that the seed decides, that it goes on bit for bit, and which checkpoints it refuses."""

import contextlib
import itertools
import math
import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from tests.training.interrupting import Interrupting, in_pieces
from tests.training.lying import DAMAGES, ODD, change, gone_on, left, refused, spoilt
from xmlgp.bmlpl import train as module
from xmlgp.bmlpl.parameters import are_valid_parameters
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.train import train_topics
from xmlgp.errors import ModelFolderError, NumericalError
from xmlgp.preprocess.pipeline import preprocess
from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.runtime.progress import silent
from xmlgp.training.checkpoints import Checkpoint, Checkpoints, read_checkpoint

N, D, K, T = 40, 25, 7, 4
DATASET = small_dataset(N, D, K)
SMALL = {"topics": T, "iterations": 5, "batch_size": 16, "burn_in": 1, "thinning": 2}
INFERENCES = list(module.INFERENCES)
#: Minibatches of a pass of online-em.
BATCHES = 3

any_inference = pytest.mark.parametrize("inference", INFERENCES)


def prepared(**chosen):
    """Preprocess; return what `train_topics` takes."""
    settings = BMLPLSettings(**SMALL | chosen)
    coordinates = preprocess(DATASET.features, settings).coordinates(DATASET.features, settings.dtype)
    return coordinates, DATASET.labels, settings


def untimed(history):
    return [{name: value for name, value in epoch.items() if name != "seconds"} for epoch in history]


def agree(found, expected):
    (parameters, history), (others, other_history) = found, expected
    assert parameters.keys() == others.keys()
    for name, value in others.items():
        assert parameters[name].dtype == value.dtype
        assert parameters[name].tobytes() == value.tobytes(), name
    assert untimed(history) == untimed(other_history)


def steps_a_pass(inference):
    return BATCHES if inference == "online-em" else 1


@any_inference
def test_the_history_and_the_parameters(inference):
    parameters, history = train_topics(*prepared(inference=inference))
    assert [set(epoch) for epoch in history] == [{"epoch", "log_posterior", "seconds"}] * 5
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3, 4, 5]
    assert all(type(epoch["log_posterior"]) is float and epoch["log_posterior"] < 0 for epoch in history)
    seconds = [epoch["seconds"] for epoch in history]
    assert seconds == sorted(seconds)
    assert are_valid_parameters(parameters, (D, K, T))
    assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


@any_inference
def test_as_many_passes_as_usual(inference):
    settings = prepared(inference=inference, iterations=None)
    _, history = train_topics(*settings)
    assert len(history) == settings[2].passes >= 20


@any_inference
@pytest.mark.parametrize("chosen", [{}, {"revealed": 0.5}, {"topics": 2}, {"dtype": "float64"}], ids=str)
def test_the_seed_decides_bit_for_bit(inference, chosen):
    first, again, other = (train_topics(*prepared(inference=inference, seed=seed, **chosen)) for seed in (0, 0, 1))
    agree(again, first)
    assert first[0]["topics"].tobytes() != other[0]["topics"].tobytes()
    assert first[0]["topics"].dtype == chosen.get("dtype", "float32")


@any_inference
def test_labels_that_are_not_revealed_are_as_if_there_were_none(inference):
    coordinates, labels, settings = prepared(inference=inference, revealed=0.5)
    seen = module.start.revealed(labels, 0.5, np.random.default_rng([0, 1]))
    assert 0.3 * labels.nnz < seen.nnz < 0.7 * labels.nnz
    before = labels.copy()
    found = train_topics(coordinates, labels, settings)
    assert (before != labels).nnz == 0
    agree(found, train_topics(coordinates, seen, prepared(inference=inference)[2]))


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

    train_topics(*prepared(inference=inference), progress)
    steps = steps_a_pass(inference)
    assert told[0] == ("train", 5 * steps, "step")
    assert [count for count, _ in told[1:]] == [1] * 5 * steps
    assert [facts["epoch"] for _, facts in told[1:]] == [f"{1 + i // steps}/5" for i in range(5 * steps)]
    assert all(float(facts["log_posterior"]) < 0 for _, facts in told[1:])


@any_inference
def test_the_parameters_after_each_pass(inference):
    seen = {}

    def after_pass(epoch, parameters):
        if epoch >= 2:  # before, nothing of gibbs is kept
            seen[epoch] = {name: value.copy() for name, value in parameters().items()}

    problem = prepared(inference=inference)
    found = train_topics(*problem, after_pass=after_pass)
    agree(found, train_topics(*problem))
    assert list(seen) == [2, 3, 4, 5]
    assert all(are_valid_parameters(parameters, (D, K, T)) for parameters in seen.values())
    assert seen[2]["weights"].tobytes() != seen[5]["weights"].tobytes()
    agree((seen[5], []), (found[0], []))


#: Every choice that has a state of its own, or draws numbers.
CHOICES = [
    {},
    {"learn_precision": True, "iterations": 14},
    {"revealed": 0.6},
    {"dtype": "float64"},
    {"topics": 9, "weighting": "none", "batch_size": 7},
    {"burn_in": 4, "thinning": 1},
]
SETTINGS = [
    {"inference": inference} | chosen
    for inference, chosen in itertools.product(INFERENCES, CHOICES)
    if not (inference == "online-em" and "learn_precision" in chosen)
]


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: " ".join(f"{k}={v}" for k, v in chosen.items()))
def test_interrupted_after_every_step(tmp_path, chosen):
    problem = prepared(**chosen)
    found, interruptions = in_pieces(train_topics, problem, tmp_path / "checkpoint", itertools.repeat(1))
    agree(found, train_topics(*problem))
    batches = -(-N // problem[2].batch_size) if chosen["inference"] == "online-em" else 1
    assert interruptions == batches * problem[2].passes


@any_inference
def test_interrupted_here_and_there(tmp_path, inference):
    problem = prepared(inference=inference, iterations=9)
    expected = train_topics(*problem)
    for seed in range(3):
        random = np.random.default_rng(seed)
        lengths = iter(lambda random=random: int(random.integers(1, 6)), 0)
        agree(in_pieces(train_topics, problem, tmp_path / f"{seed}", lengths)[0], expected)


@any_inference
def test_what_was_not_interrupted_is_not_disturbed_by_checkpoints(tmp_path, inference):
    problem, path = prepared(inference=inference), tmp_path / "checkpoint"
    agree(train_topics(*problem, checkpoints=Checkpoints(path, {}, 1e-9)), train_topics(*problem))
    assert read_checkpoint(path).facts["step"]


def test_the_bar_goes_on_where_training_was_interrupted(tmp_path):
    told = []

    class Bar:
        def update(self, count=1, **facts):
            told.append(count)

    problem, path = prepared(inference="online-em"), tmp_path / "checkpoint"
    checkpoints = Interrupting(path, {}, 0)
    checkpoints.steps = 7
    with pytest.raises(Interrupted):
        train_topics(*problem, checkpoints=checkpoints)
    resumed = Checkpoints(path, {}, 0, read_checkpoint(path))
    train_topics(*problem, lambda *_, **options: contextlib.nullcontext(Bar()), checkpoints=resumed)
    assert told == [7] + [1] * (5 * BATCHES - 7)


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

    problem = prepared(inference=inference)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", interrupted)
        with pytest.raises(Interrupted) as caught, handle_signals():
            train_topics(*problem, checkpoints=Checkpoints(path, {}, 1e9))
    assert caught.value.number == number
    assert len(steps) == 2
    assert read_checkpoint(path).facts["step"] == 2
    resumed = Checkpoints(path, {}, 1e9, read_checkpoint(path))
    agree(train_topics(*problem, checkpoints=resumed), train_topics(*problem))


@any_inference
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_log_posterior_that_is_lost(monkeypatch, inference, value):
    steps, kind = itertools.count(), module.INFERENCES[inference]
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda *arguments: value if next(steps) == 2 else step(*arguments))
    with pytest.raises(NumericalError) as caught:
        train_topics(*prepared(inference=inference))
    assert str(caught.value) == (
        "after 2 training steps: the log posterior is not finite; try another --weighting or --precision"
    )


@any_inference
def test_what_a_step_says_of_lost_numbers_is_told_with_the_step(monkeypatch, inference):
    def losing(*arguments):
        raise NumericalError("it has no factor")

    monkeypatch.setattr(module.INFERENCES[inference], "step", losing)
    with pytest.raises(
        NumericalError, match="^after 0 training steps: it has no factor; try another --weighting or --precision$"
    ):
        train_topics(*prepared(inference=inference))


@any_inference
def test_parameters_that_are_lost_are_neither_returned_nor_kept(tmp_path, monkeypatch, inference):
    kind = module.INFERENCES[inference]
    step = kind.step

    def losing(self, *arguments):
        value = step(self, *arguments)
        self.weights[-1, 0] = math.nan
        return value

    monkeypatch.setattr(kind, "step", losing)
    problem, path = prepared(inference=inference, iterations=1, batch_size=N, burn_in=0), tmp_path / "checkpoint"
    with pytest.raises(NumericalError, match=r"^after 1 training steps: (sums\.|parameters\.)?\w+ is not finite; try"):
        train_topics(*problem, checkpoints=Checkpoints(path, {}, 1e-9))
    assert not path.exists()
    if inference != "gibbs":  # whose means are of what was kept before
        with pytest.raises(NumericalError, match="^after 1 training steps: intercepts is not finite; try"):
            train_topics(*problem)


# Checkpoints that a stranger made.


PROBLEMS = {inference: prepared(inference=inference) for inference in INFERENCES}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The states that the trainings were left in."""
    return {
        inference: left(train_topics, problem, tmp_path_factory.mktemp("training"))
        for inference, problem in PROBLEMS.items()
    }


@pytest.fixture
def go_on(tmp_path, states):
    """Return a function that goes on from the state of a training, changed by another one."""

    def call(inference, **changed):
        return gone_on(train_topics, PROBLEMS[inference], tmp_path / "checkpoint", states[inference], **changed)[0]

    return call


@any_inference
def test_nothing_is_wrong_with_what_is_changed_below(go_on, inference):
    assert are_valid_parameters(go_on(inference), (D, K, T))


@any_inference
@pytest.mark.parametrize("fact", ["step", "steps", "done", "estimates", "seconds", "history", "random"])
def test_facts_of_another_type(go_on, inference, fact):
    for value in ODD:
        refused(go_on, inference, facts=change(fact, to=value))


EPOCHS = [{"epoch": epoch, "log_posterior": -1.0, "seconds": 0.5} for epoch in range(1, 9)]

PCG = {"bit_generator": "PCG64", "state": {"state": 1, "inc": 1}, "has_uint32": 0, "uinteger": 0}

LIES = {
    "a step that it is not at": change("step", to=3),
    "steps that there are not": change("steps", to=10**9),
    "more done of the pass than there is": change("done", to=99),
    "all done of the pass": change("done", to=BATCHES),
    "nothing done of the pass": change("done", to=0),
    "true in place of one": change("done", to=True),
    "part of a step": change("done", to=1.0),
    "no estimate": change("estimates", to=[]),
    "more estimates than steps": change("estimates", to=[-1.0, -1.0]),
    "an estimate that is no number": change("estimates", to=[math.nan]),
    "an estimate in words": change("estimates", to=["-1.0"]),
    "an estimate that is true": change("estimates", to=[True]),
    "seconds that are none": change("seconds", to=-1.0),
    "a history that is too short": change("history", to=[]),
    "a history that is too long": change("history", to=EPOCHS),
    "an epoch of the history that is another": change("history", 0, "epoch", to=2),
    "a log posterior that is no number": change("history", 0, "log_posterior", to=math.nan),
    "a history of another model": change("history", 0, to={"epoch": 1, "bound": -1.0, "seconds": 0.5}),
    "another generator": change("random", "bit_generator", to="MT19937"),
    "a generator that only says zero": change("random", to=PCG | {"state": {"state": 0, "inc": 0}}),
    "a generator of another seed": change("random", "state", "inc", to=1),
    "a generator that is negative": change("random", "state", "state", to=-1),
    "a generator that is too large": change("random", "state", "state", to=2**128),
    "a generator in parts": change("random", "state", "state", to=1.5),
    "a generator in a text": change("random", "state", "state", to="1"),
    "half of a number that is too large": change("random", "uinteger", to=2**40),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_lies(go_on, lie):
    refused(go_on, "online-em", facts=LIES[lie])


def test_estimates_whose_sum_is_no_number(go_on):
    def facts(facts):
        facts |= {"step": 5, "done": 2, "estimates": [1.7e308, 1.7e308]}

    refused(go_on, "online-em", facts=facts)


def test_a_history_of_all_passes_and_more_to_do(go_on):
    def facts(facts):
        facts |= {"step": 16, "history": EPOCHS[:5]}

    refused(go_on, "online-em", facts=facts)


@any_inference
@pytest.mark.parametrize("damage", DAMAGES)
def test_arrays_of_another_kind(go_on, states, inference, damage):
    for array in states[inference].arrays:
        refused(go_on, inference, arrays=spoilt(array, damage))


@any_inference
def test_what_there_is_no_distribution_for(go_on, states, inference):
    for array in module.POSITIVE | module.NOT_NEGATIVE:
        if array in states[inference].arrays:
            for value in [-1.0, -1e-45, -3e38] + [0.0, -0.0] * (array in module.POSITIVE):

                def arrays(arrays, array=array, value=value):
                    arrays[array].flat[-1] = value

                refused(go_on, inference, arrays=arrays)


def test_every_array_that_is_known_by_name_is_one(states):
    named = module.POSITIVE | module.NOT_NEGATIVE | set().union(*module.LARGEST.values())
    assert named <= set().union(*(states[inference].arrays for inference in INFERENCES))
    assert module.LARGEST.keys() == set(INFERENCES)


@pytest.mark.parametrize(
    ("array", "value"),
    [("sums.topics", -1.0), ("sums.topics", 9.0), ("sums.shapes", -1e3), ("sums.precisions", -1e3)],
)
def test_sums_that_are_of_no_samples(go_on, array, value):
    def arrays(arrays):
        arrays[array].flat[0] = value

    refused(go_on, "gibbs", arrays=arrays)


@any_inference
@pytest.mark.parametrize("value", [3e38, -3e38, -1.0, 0.0, 1e-45, 1.0, 50.0])
def test_arrays_that_could_be_train_to_a_model_or_not_at_all(go_on, states, inference, value):
    for array in states[inference].arrays:

        def arrays(arrays, array=array):
            arrays[array].fill(value)

        with contextlib.suppress(NumericalError, ModelFolderError):
            assert are_valid_parameters(go_on(inference, arrays=arrays), (D, K, T)), array


@any_inference
@pytest.mark.parametrize("topics", [10**6, 10**9])
def test_what_settings_claim_is_not_made_for_a_checkpoint_of_others(tmp_path, states, inference, topics):
    path = tmp_path / "checkpoint"
    Checkpoints(path, {}, 1).write(states[inference])
    resumed = Checkpoints(path, {}, 1, read_checkpoint(path))
    refused(train_topics, *prepared(inference=inference, topics=topics), checkpoints=resumed)


@any_inference
def test_what_data_claim_is_not_made_for_a_checkpoint_of_others(tmp_path, monkeypatch, states, inference):
    path = tmp_path / "checkpoint"
    Checkpoints(path, {}, 1).write(states[inference])
    coordinates, labels, settings = PROBLEMS[inference]
    monkeypatch.setitem(module.INFERENCES, inference, None)
    for shape in ((N, K + 1), (N + 1, K)):
        if shape[0] == N or inference != "online-em":
            resumed = Checkpoints(path, {}, 1, read_checkpoint(path))
            others = sp.csr_array(shape, dtype=bool)
            refused(train_topics, coordinates, others, settings, silent, checkpoints=resumed)


@any_inference
def test_the_state_of_another_inference_is_refused(go_on, states, inference):
    for other in set(INFERENCES) - {inference}:

        def arrays(arrays, other=other):
            arrays.clear()
            arrays |= states[other].arrays

        if {inference, other} != {"em", "em-cg"}:
            refused(go_on, inference, arrays=arrays)
    with pytest.raises(ModelFolderError):
        train_topics(*PROBLEMS[inference], checkpoints=Checkpoints(None, {}, 1, Checkpoint(None, {}, {})))
