"""Checkpoints: what is written is read back, when they are written, and what is none is refused within its size."""

import io
import json
import math
import os
import pickle
import signal
import struct
import tracemalloc
import zipfile
from unittest import mock

import numpy as np
import pytest

from xmlgp.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted, defer_signals, handle_signals
from xmlgp.training import checkpoints as module
from xmlgp.training.checkpoints import PATIENCE, Checkpoints, State, read_checkpoint

ABOUT = {"what": "is trained", "deep": {"est": [1, None, True, "ℓ"]}}

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "in Fortran's order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "of both orders": np.arange(3.0).reshape(1, 3),
    "of neither order": np.arange(24.0).reshape(4, 6)[::2, ::3],
    "deep": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "scalar": np.array(2.5, np.float32),
    "empty": np.empty((0, 3), np.float32),
    "empty in Fortran's order": np.empty((3, 0), order="F"),
    "places": np.array([0, 2**40, -1]),
    "few places": np.array([[3], [2**31 - 1]], np.int32),
    "of the other byte order": np.arange(3, dtype=np.dtype(np.float32).newbyteorder()),
    "smallest and greatest": np.array([5e-324, -1.7976931348623157e308, -0.0]),
    "optimiser.loadings/mean": np.ones((4, 5), np.float32),
}

FACTS = {
    "floats": [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2.0, math.inf, -math.inf, math.nan],
    "integers": [0, -1, 2**128 - 1],
    "nothing": None,
    "random": np.random.default_rng(3).bit_generator.state,
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "checkpoint.npz"


def written(file, facts=FACTS, arrays=ARRAYS):
    Checkpoints(file, ABOUT, 1).write(State(facts, arrays))
    return read_checkpoint(file)


def like(array):
    """Another array of the same type, shape and order."""
    return np.full_like(array, 7)


def damaged(file, fill=None):
    """Make sure that a checkpoint is refused in one sentence, on opening it or when arrays are filled."""
    with pytest.raises(ModelFolderError) as caught:
        read_checkpoint(file).fill({"matrix": like(ARRAYS["matrix"])} if fill is None else fill)
    return str(caught.value) == f"{file}: the checkpoint is damaged; --no-resume begins anew without it"


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_back_bit_for_bit(file, name):
    array = ARRAYS[name]
    found = like(array)
    written(file).fill({name: found})
    assert found.tobytes() == array.tobytes()
    # Whatever the order of what is filled.
    for order in "CF":
        found = np.full(array.shape, 7, array.dtype, order)
        read_checkpoint(file).fill({name: found})
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ARRAYS)
def test_other_programs_can_read_arrays(file, name):
    written(file)
    with np.load(file) as arrays:
        np.testing.assert_array_equal(arrays[name], ARRAYS[name])
        assert arrays[name].dtype == ARRAYS[name].dtype


def test_facts_are_read_back_exactly(file):
    found = written(file)
    assert (found.about, found.path) == (ABOUT, file)
    # So that what is no number equals itself, and zeros differ by their signs.
    assert repr(found.facts) == repr(FACTS)
    random = np.random.default_rng(0)
    random.bit_generator.state = found.facts["random"]
    assert random.random() == np.random.default_rng(3).random()


def test_without_a_state_it_says_what_is_to_be_trained(file):
    checkpoints = Checkpoints(file, ABOUT, 1)
    checkpoints.write()
    found = read_checkpoint(file)
    assert (found.about, found.facts) == (ABOUT, None)
    assert not checkpoints.kept
    checkpoints.write(State({}, {}))
    assert checkpoints.kept
    assert read_checkpoint(file).facts == {}
    assert Checkpoints(file, ABOUT, 1, read_checkpoint(file)).kept


def test_there_need_not_be_one(file):
    assert read_checkpoint(file) is None
    assert read_checkpoint(file / "deeper") is None


def test_states_are_joined():
    joined = State({"a": 1}, {"b": 2}).joined(State({"c": 3}, {"d": 4}))
    assert joined == State({"a": 1, "c": 3}, {"b": 2, "d": 4})


class Clock:
    """In the place of time, with which nothing passes but what is said to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Watched(Checkpoints):
    """Takes note of what would be written, and takes its time."""

    def __init__(self, clock, every, takes=0.0):
        self.clock, self.takes, self.times = clock, takes, []
        super().__init__(None, {}, every)

    def write(self, state=None):
        with mock.patch.object(module, "atomic_write", self._slowly):
            super().write(state)

    def _slowly(self, path):
        self.clock.now += self.takes
        self.times.append(self.clock.now)
        return io.BytesIO()

    def after(self, seconds, epoch_ended=False):
        """Return whether one is written so many seconds later."""
        self.clock.now += seconds
        before, asked = len(self.times), []
        self.offer(lambda: asked.append(1) or State({}, {}), epoch_ended)
        # The state is put together only where it is written.
        assert len(asked) == len(self.times) - before
        return bool(asked)


def test_within_an_epoch_one_is_written_every_so_often(clock):
    watched = Watched(clock, every=100)
    assert [watched.after(30) for _ in range(9)] == [False, False, False, True] * 2 + [False]
    assert watched.after(70)
    assert not watched.after(99.9)
    assert watched.after(0.1)


def test_one_is_written_at_the_end_of_each_epoch_that_is_long_beside_it(clock):
    watched = Watched(clock, every=1e9, takes=1.0)
    # How long it takes is known from the first one on.
    assert watched.after(0.001, epoch_ended=True)
    assert [watched.after(PATIENCE - 1, epoch_ended=True) for _ in range(4)] == [False, True] * 2
    assert watched.after(PATIENCE, epoch_ended=True)
    assert not watched.after(PATIENCE, epoch_ended=False)


def test_writing_takes_no_more_than_a_share_of_the_time_however_often_it_is_wanted(clock):
    watched = Watched(clock, every=1.0, takes=2.0)
    for _ in range(2000):
        watched.after(0.5)
    taken = watched.takes * len(watched.times)
    assert len(watched.times) > 10
    assert taken <= (clock.now - 1000) / PATIENCE


def test_what_says_only_what_is_to_be_trained_does_not_count(clock):
    watched = Watched(clock, every=100, takes=1.0)
    clock.now += 60
    watched.write()
    assert watched.after(60)


def test_none_are_written_where_none_are_wanted(clock):
    watched = Watched(clock, every=0)
    assert not watched.after(1e9)
    assert not watched.after(1e9, epoch_ended=True)

    def signalled():
        with handle_signals(), defer_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            watched.after(1)

    with pytest.raises(Interrupted):
        signalled()
    assert watched.times == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_is_written_for_a_signal_that_waits_and_then_it_is_raised(file, number):
    checkpoints = Checkpoints(file, ABOUT, 1e9)

    def signalled():
        with handle_signals(), defer_signals():
            checkpoints.offer(None)
            os.kill(os.getpid(), number)
            checkpoints.offer(lambda: State({"so": "far"}, {}))

    with pytest.raises(Interrupted) as caught:
        signalled()
    assert caught.value.number == number
    assert read_checkpoint(file).facts == {"so": "far"}
    assert checkpoints.kept


def in_the_midst(monkeypatch, act):
    """Let something happen when half of the arrays are written."""
    write, left = module.write_array, iter([None, act])

    def writing(stream, array):
        write(stream, array)
        if do := next(left, None):
            do()

    monkeypatch.setattr(module, "write_array", writing)


@pytest.mark.parametrize(
    "failure", [OSError(28, "No space left on device"), MemoryError(), KeyboardInterrupt()], ids=repr
)
def test_what_was_there_stays_when_another_cannot_be_written(file, monkeypatch, failure):
    before = written(file, {"step": 1})
    content = file.read_bytes()

    def fail():
        raise failure

    in_the_midst(monkeypatch, fail)
    checkpoints = Checkpoints(file, ABOUT, 1, before)
    with pytest.raises(type(failure)) as caught:
        checkpoints.write(State({"step": 2}, ARRAYS))
    if isinstance(failure, OSError):
        assert caught.value.filename == str(file)
    assert file.read_bytes() == content
    assert os.listdir(file.parent) == [file.name]


def test_two_signals_while_one_is_written_leave_what_was_there(file, monkeypatch):
    written(file, {"step": 1})

    def signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    in_the_midst(monkeypatch, signals)

    def write():
        with handle_signals(), defer_signals():
            Checkpoints(file, ABOUT, 1e-9).offer(lambda: State({"step": 2}, ARRAYS))

    with pytest.raises(Interrupted) as caught:
        write()
    assert caught.value.number == signal.SIGINT
    assert read_checkpoint(file).facts == {"step": 1}
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.filterwarnings("error")
def test_two_signals_as_a_member_is_begun_are_told_as_themselves(file, monkeypatch, capfd):
    written(file, {"step": 1})
    begin = zipfile.ZipFile.open

    def beginning(self, name, *arguments, **options):
        member = begin(self, name, *arguments, **options)
        if options:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
        return member

    monkeypatch.setattr(zipfile.ZipFile, "open", beginning)

    def write():
        with handle_signals(), defer_signals():
            Checkpoints(file, ABOUT, 1e-9).offer(lambda: State({"step": 2}, ARRAYS))

    with pytest.raises(Interrupted) as caught:
        write()
    assert caught.value.number == signal.SIGINT
    assert read_checkpoint(file).facts == {"step": 1}
    assert os.listdir(file.parent) == [file.name]
    assert capfd.readouterr() == ("", "")


def test_one_signal_while_one_is_written_waits_for_it(file, monkeypatch):
    in_the_midst(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGTERM))

    def write():
        with handle_signals(), defer_signals():
            Checkpoints(file, ABOUT, 1e-9).offer(lambda: State({"step": 2}, ARRAYS))

    with pytest.raises(Interrupted):
        write()
    assert read_checkpoint(file).facts == {"step": 2}


def test_a_link_is_replaced_and_not_followed(file):
    elsewhere = file.with_name("elsewhere")
    elsewhere.write_text("precious")
    file.symlink_to(elsewhere)
    assert damaged(file)
    written(file)
    assert not file.is_symlink()
    assert elsewhere.read_text() == "precious"


def put_pipe(file):
    os.mkfifo(file)


def put_folder(file):
    file.mkdir()


def put_dangling_link(file):
    file.symlink_to("nowhere")


def put_link_to_itself(file):
    file.symlink_to(file.name)


def put_link_to_a_device(file):
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "put",
    [put_pipe, put_folder, put_dangling_link, put_link_to_itself, put_link_to_a_device],
    ids=lambda put: put.__name__,
)
def test_what_is_no_file_is_not_waited_for(file, put):
    put(file)
    with pytest.raises(ModelFolderError, match="checkpoint[^ ]*: this is no checkpoint; remove it$"):
        read_checkpoint(file)


def test_one_that_may_not_be_read_is_told_as_such(file, monkeypatch):
    written(file)

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(module.zipfile, "ZipFile", refuse)
    with pytest.raises(PermissionError):
        read_checkpoint(file)


def test_cut_short_anywhere(file):
    arrays = {"matrix": ARRAYS["matrix"]}
    written(file, {}, arrays)
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        assert damaged(file), length


def test_another_byte_anywhere(file):
    arrays = {"matrix": ARRAYS["matrix"]}
    written(file, {"x": 1}, arrays)
    content = file.read_bytes()
    kept = 0
    for place in range(len(content)):
        for bit in (1, 128):
            file.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            found = np.zeros((2, 3), np.float32)
            try:
                checkpoint = read_checkpoint(file)
                checkpoint.fill({"matrix": found})
            except ModelFolderError:
                continue
            # Dates and the like: what is read is what was written.
            kept += 1
            assert (checkpoint.about, checkpoint.facts) == (ABOUT, {"x": 1})
            np.testing.assert_array_equal(found, arrays["matrix"])
    assert kept < len(content) / 2


def packed(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0))
    return stream.getvalue()


def with_header(header, content=b"", version=b"\x01\x00"):
    encoded = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(encoded)) + encoded + content


def archived(file, member, facts=None, compression=zipfile.ZIP_STORED, **changes):
    """Write an archive with some member in the place of the matrix, which claims something else of itself."""
    content = json.dumps({"about": {}, "state": {}}) if facts is None else facts
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("matrix.npy", member)
        archive.writestr("checkpoint.json", content)
        for name, value in changes.items():
            setattr(archive.getinfo("matrix.npy"), name, value)
    return file


MATRIX = packed(ARRAYS["matrix"])


def test_the_archive_that_is_damaged_below_is_read_where_it_is_not(file):
    found = np.empty((2, 3), np.float32)
    read_checkpoint(archived(file, MATRIX)).fill({"matrix": found})
    np.testing.assert_array_equal(found, ARRAYS["matrix"])


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members(file, compression):
    assert damaged(archived(file, MATRIX, compression=compression))
    # Nor where only the array is.
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("checkpoint.json", json.dumps({"about": {}, "state": {}}))
        archive.writestr("matrix.npy", MATRIX, compression)
    assert damaged(file)


@pytest.mark.parametrize("key", ["file_size", "compress_size"])
@pytest.mark.parametrize("size", [0, len(MATRIX) - 1, len(MATRIX) + 1, 2**31, 2**40])
def test_sizes_that_are_not_those_of_the_member(file, key, size):
    assert damaged(archived(file, MATRIX, **{key: size}))
    assert damaged(archived(file, MATRIX, file_size=size, compress_size=size))


@pytest.mark.parametrize(
    "changes",
    [{"header_offset": 2**40}, {"header_offset": 10}, {"flag_bits": 1}, {"CRC": 0}, {"filename": "other.npy"}],
    ids=str,
)
def test_other_things_that_members_can_claim(file, changes):
    assert damaged(archived(file, MATRIX, **changes))


def test_an_array_that_is_missing(file):
    written(file)
    assert damaged(file, {"another": np.ones(3)})


def test_a_member_that_is_there_twice(file):
    other = {"matrix.npy": packed(np.ones((2, 3), np.float32)), "checkpoint.json": '{"about": {}, "state": null}'}
    for name, content in other.items():
        archived(file, MATRIX)
        with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, content)
        assert damaged(file)


@pytest.mark.parametrize(
    "array",
    [
        np.ones((3, 2), np.float32),
        np.ones((2, 3)),
        np.ones((2, 3), np.dtype(np.float32).newbyteorder()),
        np.ones((2, 3), np.int32),
        np.ones(6, np.float32),
        np.ones((2, 3, 1), np.float32),
        np.float32(1),
        np.ones((0, 3), np.float32),
        np.array([[1, 2, 3], [4, 5, np.nan]], np.float32),
        np.array([[1, 2, 3], [4, 5, -np.inf]], np.float32),
    ],
    ids=repr,
)
def test_another_array(file, array):
    assert damaged(archived(file, packed(array)))


class Trap:
    def __reduce__(self):
        return os._exit, (99,)


def test_pickles_are_not_loaded(file):
    objects = np.empty((2, 3), object)
    objects[:] = Trap()
    stream = io.BytesIO()
    np.save(stream, objects, allow_pickle=True)
    assert damaged(archived(file, stream.getvalue()))
    assert damaged(archived(file, pickle.dumps(Trap())))
    # Nor where the array to be filled would hold them.
    assert damaged(archived(file, stream.getvalue()), {"matrix": np.empty((2, 3), object)})
    file.write_bytes(pickle.dumps(Trap()))
    assert damaged(file)


HEADERS = [
    "", "{", "[]", "{[]: 1}", "'" * 9, "(" * 5000, "1" * 6000, "{'descr': '<f4'", "\xff", "__import__('os')._exit(99)",
    "'\\d'", "1if 2else 3", "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3.0)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3000000000000)}",
    f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**70},)}}",
    "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (2, 3)}",
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:60])
def test_damaged_headers(file, header):
    assert damaged(archived(file, with_header(header, bytes(24))))


@pytest.mark.parametrize("version", [b"\x00\x00", b"\x02\x00", b"\x03\x00", b"\xff\xff"])
def test_headers_of_other_versions(file, version):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"
    assert damaged(archived(file, with_header(header, bytes(24), version)))


def test_a_big_header(file):
    # As long as it can be said to be, and longer than the file.
    assert damaged(archived(file, with_header(" " * 65_000 + "{}", bytes(24))))
    assert damaged(archived(file, b"\x93NUMPY\x01\x00\xff\xff{}"))


def test_more_numbers_or_fewer_than_there_should_be(file):
    for member in (MATRIX[:-1], MATRIX[:-4], MATRIX + b"\0", MATRIX + bytes(4), MATRIX + bytes(1 << 20), b""):
        assert damaged(archived(file, member))


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "facts",
    [
        "", "{", "[]", "null", "1", '"x"', "{}", '{"about": {}}', '{"state": {}}', '{"about": [], "state": {}}',
        '{"about": null, "state": {}}', '{"about": {}, "state": []}', '{"about": {}, "state": 1}',
        '{"about": {}, "state": {"x": ' + "9" * 5000 + "}}", '{"about": {}, "state": {"x": ' + NESTED + "}}",
        b"\xff\xfe", b"\x80", '{"about": {}, "state": {}}\0',
    ],
    ids=lambda facts: repr(facts[:40]),
)  # fmt: skip
def test_facts_that_are_none(file, facts):
    assert damaged(archived(file, MATRIX, facts=facts))


def test_an_archive_without_facts(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("matrix.npy", MATRIX)
    assert damaged(file)
    np.savez(file, matrix=ARRAYS["matrix"])
    assert damaged(file)


def test_facts_that_are_too_large(file, monkeypatch):
    monkeypatch.setattr(module, "FACTS_LIMIT", 1000)
    assert read_checkpoint(archived(file, MATRIX, facts='{"about": {}, "state": {}}' + " " * 900))
    assert damaged(archived(file, MATRIX, facts='{"about": {}, "state": {}}' + " " * 1000))


@pytest.mark.parametrize("claim", ["a member", "an array", "the facts"])
def test_no_more_memory_is_taken_than_there_should_be_numbers(file, claim):
    large = 1 << 30
    archived(file, MATRIX)
    if claim == "a member":
        archived(file, MATRIX, file_size=large, compress_size=large)
    elif claim == "an array":
        archived(file, with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (2, {large})}}", bytes(24)))
    else:
        archived(file, MATRIX, facts='{"about": {}, "state": {}}' + " " * module.FACTS_LIMIT)
    if claim != "the facts":
        # There is that much, and nothing in it: a file need not take the room that it claims.
        content = file.read_bytes()
        with open(file, "r+b") as stream:
            stream.write(content[:-22])
            stream.seek(4 * large)
            stream.write(content[-22:])
    tracemalloc.start()
    try:
        assert damaged(file)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < (3 * module.FACTS_LIMIT if claim == "the facts" else 1 << 20)


def test_shapes_are_known_before_anything_is_read(file):
    Checkpoints(file, {}, 1).write(State({}, {"a": np.zeros((3, 4), np.float32), "b": np.zeros((2, 5), order="F")}))
    found = read_checkpoint(file)
    found.check_shape("a", (3, 4))
    found.check_shape("b", (2, 5))
    for name, shape in (("a", (4, 3)), ("a", (12,)), ("b", (10**9, 5)), ("c", (1,))):
        with pytest.raises(ModelFolderError, match="damaged"):
            found.check_shape(name, shape)
