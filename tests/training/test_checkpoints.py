"""Checkpoints: reading and writing, when they are written, and errors for damaged ones."""

import io
import os
import signal
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals
from xmlgp.training import checkpoints as module
from xmlgp.training.checkpoints import TIME_RATIO, CheckpointWriter, TrainingState, read_checkpoint

ABOUT = {"what": "is trained", "deep": {"est": [1, None, True, "ℓ"]}}

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "both orders": np.arange(3.0).reshape(1, 3),
    "neither order": np.arange(24.0).reshape(4, 6)[::2, ::3],
    "deep": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "scalar": np.array(2.5, np.float32),
    "empty": np.empty((0, 3), np.float32),
    "empty, Fortran order": np.empty((3, 0), order="F"),
    "int64": np.array([0, 2**40, -1]),
    "int32": np.array([[3], [2**31 - 1]], np.int32),
    "other byte order": np.arange(3, dtype=np.dtype(np.float32).newbyteorder()),
    "extreme values": np.array([5e-324, -1.7976931348623157e308, -0.0]),
    "optimiser.loadings/mean": np.ones((4, 5), np.float32),
}

FACTS = {
    "floats": [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0],
    "integers": [0, -1, 2**128 - 1],
    "nothing": None,
    "random": np.random.default_rng(3).bit_generator.state,
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "checkpoint.npz"


def written(file, facts=FACTS, arrays=ARRAYS):
    CheckpointWriter(file, ABOUT, 1).save(TrainingState(facts, arrays))
    return read_checkpoint(file)


def refused(file, arrays=None):
    """Assert that a checkpoint is refused with one message, when it is opened or when arrays are filled."""
    with pytest.raises(ModelFolderError) as caught:
        read_checkpoint(file).fill(arrays or {"matrix": np.zeros((2, 3), np.float32)})
    assert str(caught.value) == f"{file}: the checkpoint is damaged; use `resume=False` to start a new run"


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_back_bit_for_bit(file, name):
    array, checkpoint = ARRAYS[name], written(file)
    # The order of the array that is filled does not matter.
    for order in "KCF":
        found = np.full_like(array, 7, order=order)
        checkpoint.fill({name: found})
        assert found.tobytes() == array.tobytes()
    # Other programs can read them.
    with np.load(file) as arrays:
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_facts_are_read_back_exactly(file):
    found = written(file)
    assert (found.about, found.path) == (ABOUT, file)
    # Compared as text, because -0.0 equals 0.0.
    assert repr(found.facts) == repr(FACTS)
    random = np.random.default_rng(0)
    random.bit_generator.state = found.facts["random"]
    assert random.random() == np.random.default_rng(3).random()


def test_a_missing_checkpoint_is_none(file):
    assert read_checkpoint(file) is None
    assert read_checkpoint(file / "deeper") is None
    file.touch()
    assert read_checkpoint(file / "deeper") is None


class Watched(CheckpointWriter):
    """Records when it writes; each write takes `takes` seconds of a clock of its own."""

    def __init__(self, monkeypatch, interval, takes=0.0):
        self.now, self.takes, self.times = 1000.0, takes, []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "atomic_write", self._slowly)
        super().__init__(None, {}, interval)

    def _slowly(self, path):
        self.now += self.takes
        self.times.append(self.now)
        return io.BytesIO()

    def after(self, seconds, epoch_ended=False):
        """Return whether a checkpoint is written when called `seconds` later."""
        self.now += seconds
        before, asked = len(self.times), []
        self.maybe_save(lambda: asked.append(1) or TrainingState({}, {}), epoch_ended)
        # The state is collected only if it is written.
        assert len(asked) == len(self.times) - before
        return bool(asked)


def test_within_an_epoch_a_checkpoint_is_written_at_each_interval(monkeypatch):
    watched = Watched(monkeypatch, interval=100)
    assert [watched.after(30) for _ in range(9)] == [False, False, False, True] * 2 + [False]
    assert watched.after(70)
    assert not watched.after(99.9)
    assert watched.after(0.1)


def test_at_the_end_of_an_epoch_a_checkpoint_is_written_if_it_took_long_enough(monkeypatch):
    watched = Watched(monkeypatch, interval=1e9, takes=1.0)
    # The first one measures how long writing takes.
    assert watched.after(0.001, epoch_ended=True)
    assert [watched.after(TIME_RATIO - 1, epoch_ended=True) for _ in range(4)] == [False, True] * 2
    assert watched.after(TIME_RATIO, epoch_ended=True)
    assert not watched.after(TIME_RATIO, epoch_ended=False)


def test_with_the_interval_0_no_checkpoint_is_written(monkeypatch):
    watched = Watched(monkeypatch, interval=0)
    assert not watched.after(1e9)
    assert not watched.after(1e9, epoch_ended=True)

    save_with_signals(watched, ({}, {}), signal.SIGTERM)
    assert watched.times == []


def save_with_signals(checkpoints, state, first=None):
    """Write a checkpoint, perhaps after a signal; return the interruption that is raised."""

    def write():
        with handle_signals(), defer_signals():
            if first:
                os.kill(os.getpid(), first)
            checkpoints.maybe_save(lambda: TrainingState(*state))

    with pytest.raises(Interrupted) as caught:
        write()
    return caught.value


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_checkpoint_is_written_before_a_waiting_signal_is_raised(file, number):
    checkpoints = CheckpointWriter(file, ABOUT, 1e9)
    checkpoints.maybe_save(None)
    assert save_with_signals(checkpoints, ({"so": "far"}, {}), number).number == number
    assert read_checkpoint(file).facts == {"so": "far"}


def halfway(monkeypatch, act):
    """Call a function after the second array is written."""
    write, calls = module.write_array, iter([None, act])

    def writing(stream, array):
        write(stream, array)
        if call := next(calls, None):
            call()

    monkeypatch.setattr(module, "write_array", writing)


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), MemoryError(), KeyboardInterrupt()], ids=repr
)
def test_the_last_checkpoint_is_kept_when_writing_fails(file, monkeypatch, failure):
    before = written(file, {"step": 1})
    content = file.read_bytes()

    def fail():
        raise failure

    halfway(monkeypatch, fail)
    with pytest.raises(type(failure)) as caught:
        CheckpointWriter(file, ABOUT, 1, before).save(TrainingState({"step": 2}, ARRAYS))
    if isinstance(failure, OSError):
        assert caught.value.filename == str(file)
    assert file.read_bytes() == content
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    ("signals", "raised", "step"),
    [([signal.SIGTERM], signal.SIGTERM, 2), ([signal.SIGTERM, signal.SIGINT], signal.SIGINT, 1)],
)
def test_one_signal_waits_for_the_checkpoint_and_a_second_one_leaves_the_last(file, monkeypatch, signals, raised, step):
    written(file, {"step": 1})
    halfway(monkeypatch, lambda: [os.kill(os.getpid(), number) for number in signals])
    found = save_with_signals(CheckpointWriter(file, ABOUT, 1e-9), ({"step": 2}, ARRAYS))
    assert found.number == raised
    assert read_checkpoint(file).facts == {"step": step}
    assert os.listdir(file.parent) == [file.name]


def test_a_truncated_file_is_refused(file):
    written(file, {}, {"matrix": ARRAYS["matrix"]})
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        refused(file)


def test_a_changed_bit_anywhere_is_refused_or_changes_nothing(file):
    arrays = {"matrix": ARRAYS["matrix"]}
    written(file, {"x": 1}, arrays)
    content = file.read_bytes()
    unchanged = 0
    for place in range(len(content)):
        for bit in (1, 128):
            file.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            found = np.zeros((2, 3), np.float32)
            try:
                checkpoint = read_checkpoint(file)
                checkpoint.fill({"matrix": found})
            except ModelFolderError:
                continue
            # The bit was in an unused field, such as the date.
            unchanged += 1
            assert (checkpoint.about, checkpoint.facts) == (ABOUT, {"x": 1})
            np.testing.assert_array_equal(found, arrays["matrix"])
    assert unchanged < len(content)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "1", "{}", '{"about": {}}', '{"state": {}}', '{"about": 1, "state": {}}', b"\x80",
        '{"about": {}, "state": NaN}', '{"about": {}, "state": -1e999}', '{"about": {"a": "\\u001b[2J"}, "state": {}}',
    ],
    ids=str,
)  # fmt: skip
def test_invalid_facts_are_refused(file, content):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(module.FACTS, content)
    refused(file)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("matrix", np.zeros((3, 2), np.float32)),
        ("matrix", np.zeros(6, np.float32)),
        ("matrix", np.zeros((2, 3))),
        ("missing", np.zeros(3)),
    ],
)
def test_a_missing_array_and_one_of_another_shape_or_type_are_refused(file, name, like):
    written(file)
    refused(file, {name: like})
