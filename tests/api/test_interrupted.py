"""The checkpoint of an interrupted run: what it says, and how a damaged or different one is refused."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

import xmlgp
from tests.problems import small_dataset
from xmlgp.api.interrupted import CHECKPOINT, InterruptedRun
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.runtime import zip_archives
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.threads import core_count
from xmlgp.training import checkpoints

SETTINGS = MLGPFSettings(inducing="subspace", inducing_count=6, basis_size=9, factors=3, epochs=3, batch_size=20)


def interrupt_after(steps, patch):
    """Interrupt training after a checkpoint of some steps."""

    def maybe_save(self, state, epoch_ended=False):
        if state().facts["step"] == steps:
            self.save(state())
            raise Interrupted(15)

    patch.setattr(checkpoints.CheckpointWriter, "maybe_save", maybe_save)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The files of two model folders, by the number of steps after which training was interrupted."""
    made = {}
    for steps in (2, 3):
        path = tmp_path_factory.mktemp("model")
        with pytest.MonkeyPatch.context() as patch:
            interrupt_after(steps, patch)
            with pytest.raises(Interrupted):
                xmlgp.train(small_dataset(), path, settings=SETTINGS)
        made[steps] = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return made


@pytest.fixture
def interrupted(tmp_path, originals):
    """Return a function that makes the model folder, with a changed checkpoint."""

    def make(change=lambda content: None, steps=2):
        for name, content in originals[steps].items():
            file = tmp_path / "model" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        rewrite(tmp_path / "model" / CHECKPOINT, change)
        return tmp_path / "model"

    return make


def rewrite(file, change):
    """Change what a checkpoint says; its arrays stay."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["checkpoint.json"])
    change(content)
    members["checkpoint.json"] = json.dumps(content)
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


def refused(path):
    """Return the message for a checkpoint that cannot be read; nothing is lost by trying."""
    with pytest.raises(ModelFolderError) as caught:
        InterruptedRun.read(path)
    before = (path / CHECKPOINT).read_bytes()
    with pytest.raises(ModelFolderError, match="`resume=False`"):
        xmlgp.train(small_dataset(), path, settings=SETTINGS)
    assert (path / CHECKPOINT).read_bytes() == before
    assert xmlgp.train(small_dataset(), path, settings=SETTINGS, resume=False).folder.stage == "trained"
    return str(caught.value)


def test_no_run_is_interrupted_without_a_checkpoint(tmp_path):
    assert InterruptedRun.read(tmp_path) is InterruptedRun.read(tmp_path / "missing") is None
    xmlgp.train(small_dataset(), tmp_path, settings=SETTINGS)
    assert InterruptedRun.read(tmp_path) is None


def test_a_run_says_how_far_it_came(interrupted, tmp_path):
    run = InterruptedRun.read(interrupted())
    assert (run.settings, run.data) == (SETTINGS.with_model(), small_dataset().facts)
    assert set(run.preprocess) == {"preprocess.idf", "preprocess.basis", "preprocess.inducing"}
    assert (run.step, run.steps, run.where) == (2, 6, "after 2 of 6 steps of training")
    assert run.cores == core_count()
    assert run.difference(run.data, SETTINGS) is None


def test_the_first_difference_to_another_run_is_named(interrupted):
    run = InterruptedRun.read(interrupted())
    assert run.difference(run.data | {"fingerprint": "f" * 64}, SETTINGS) == "on other data"
    for changes, difference in [
        ({"epochs": 4}, "with different settings (epochs 3, now 4)"),
        ({"learning_rate": 0.5}, "with different settings (learning_rate unset, now 0.5)"),
        ({"epochs": None}, "with different settings (epochs 3, now unset)"),
    ]:
        assert run.difference(run.data, MLGPFSettings(**SETTINGS.mapping() | changes)) == difference
    assert run.difference(run.data, BMLPLSettings()) == "with different settings (model mlgpf, now bmlpl)"


@pytest.mark.parametrize("forged", [{"data": 5}, {"settings": {"model": ["mlgpf"]}}, {"settings": {"factors": -1}}])
def test_a_checkpoint_of_forged_data_or_settings_is_another_run(interrupted, forged):
    path = interrupted(lambda content: content["about"].update(forged))
    with pytest.raises(ModelFolderError, match=r"an unfinished run (on other data|with different settings) .*exists, "):
        xmlgp.train(small_dataset(), path, settings=SETTINGS)
    assert xmlgp.train(small_dataset(), path, settings=SETTINGS, resume=False).folder.stage == "trained"


def test_a_checkpoint_of_another_version_is_refused(interrupted):
    path = interrupted(lambda content: content["about"].update(format_version=99))
    assert refused(path).startswith(f"{path / CHECKPOINT}: another version of xmlgp wrote it; ")


#: What a forged checkpoint may say of a run, and of its state.
FORGED_ABOUT = [
    {"preprocess": ["x"]}, {"preprocess": {"a": 5}}, {"settings": 5},
    {"preprocess": {"preprocess.idf": {"file": "../victim", "dtype": "<f4", "shape": [1]}}},
    {"preprocess": {"preprocess.idf": {"file": "arrays/../../victim", "dtype": "<f4", "shape": [1]}}},
    {"cores": "\x1b[31m"}, {"cores": [[[[[[[[[[[["deep"]]]]]]]]]]]]},
]  # fmt: skip
FORGED_STATE = [{"step": "\x1b[31mred"}, {"step": 7}, {"step": -1}, {"steps": True}, {"seconds": float("nan")}]


@pytest.mark.parametrize("forged", FORGED_ABOUT, ids=str)
def test_a_forged_description_of_a_run_is_refused_and_removes_nothing_else(interrupted, tmp_path, forged):
    victim = tmp_path / "victim"
    victim.write_text("of the user")
    path = interrupted(lambda content: content["about"].update(forged))
    assert "the checkpoint is damaged" in refused(path)
    assert victim.read_text() == "of the user"


@pytest.mark.parametrize("forged", FORGED_STATE, ids=str)
def test_a_forged_state_is_refused(interrupted, forged):
    assert "the checkpoint is damaged" in refused(interrupted(lambda content: content["state"].update(forged)))


@pytest.mark.parametrize(
    "forged",
    [
        # Training would never come to its end.
        {"step": 10**6}, {"step": -1}, {"step": "0"}, {"step": 0.5}, {"steps": 10**6},
        {"history": [5]}, {"history": [{"epoch": 1}]}, {"estimates": ["x"]}, {"estimates": 5},
        {"random": {"state": "x"}}, {"learning_rate": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_place_in_training_is_refused_when_it_is_resumed(interrupted, forged):
    path = interrupted(lambda content: content["state"].update(forged))
    with pytest.raises(ModelFolderError, match="the checkpoint is damaged; use `resume=False`"):
        xmlgp.train(small_dataset(), path, settings=SETTINGS)


def test_a_file_of_the_user_among_the_arrays_is_not_removed(interrupted):
    def forge(content):
        content["about"]["preprocess"]["preprocess.idf"]["file"] = "arrays/notes.npy"

    path = interrupted(forge)
    (path / "arrays/notes.npy").write_text("of the user")
    xmlgp.train(small_dataset(seed=9), path, settings=SETTINGS, resume=False)
    assert (path / "arrays/notes.npy").read_text() == "of the user"


@pytest.mark.parametrize("kind", ["spaces", "lists", "compressed", "members"])
def test_a_small_checkpoint_does_not_fill_the_memory(interrupted, monkeypatch, kind):
    path = interrupted()
    content = {"spaces": b" " * 50_000_000, "lists": b"[" + b"[]," * 5_000_000 + b"[]]"}.get(kind, b" " * 5_000_000)
    method = zipfile.ZIP_BZIP2 if kind == "compressed" else zipfile.ZIP_STORED
    if kind != "members":
        with zipfile.ZipFile(path / CHECKPOINT, "w", method) as archive:
            archive.writestr("checkpoint.json", content)
    else:
        # Of 46 bytes and the name each.
        monkeypatch.setattr(zip_archives, "MOST_AT_ONCE", 200)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFolderError, match="the checkpoint is damaged"):
            InterruptedRun.read(path)
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


def test_a_checkpoint_that_is_no_archive_is_damaged(interrupted):
    path = interrupted()
    (path / CHECKPOINT).write_bytes(b"PK\x03\x04 and no more")
    assert "the checkpoint is damaged" in refused(path)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_damaged_arrays_of_preprocessing_are_refused(interrupted, damage):
    path = interrupted()
    entry = InterruptedRun.read(path).preprocess["preprocess.inducing"]
    if damage == "missing":
        (path / entry["file"]).unlink()
    else:
        (path / entry["file"]).write_bytes((path / entry["file"]).read_bytes()[:-1])
    with pytest.raises(ModelFolderError, match=r"preprocess\.inducing.*use `resume=False` to start a new run$"):
        xmlgp.train(small_dataset(), path, settings=SETTINGS)
    assert xmlgp.train(small_dataset(), path, settings=SETTINGS, resume=False).folder.stage == "trained"


def test_a_run_is_resumed_even_without_further_checkpoints(interrupted):
    path = interrupted()
    model = xmlgp.train(small_dataset(), path, settings=SETTINGS, checkpoint_seconds=0)
    for name, value in xmlgp.train(small_dataset(), settings=SETTINGS).parameters.items():
        np.testing.assert_array_equal(model.parameters[name], value)
    assert not (path / CHECKPOINT).exists()


@pytest.mark.parametrize("seconds", [0, 300])
def test_an_interruption_before_the_first_checkpoint_leaves_nothing(tmp_path, monkeypatch, seconds):
    def stop(*arguments):
        raise Interrupted(15)

    monkeypatch.setattr("xmlgp.api.train.Run.train", stop)
    with pytest.raises(Interrupted):
        xmlgp.train(small_dataset(), tmp_path / "model", settings=SETTINGS, checkpoint_seconds=seconds)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("order", [np.zeros(40, int), np.full(40, 10**9), np.full(40, -(10**9))], ids=str)
def test_a_forged_order_of_points_is_refused(interrupted, order):
    path = interrupted(steps=3)
    with zipfile.ZipFile(path / CHECKPOINT) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert sorted(np.load(io.BytesIO(members["order.npy"]))) == list(range(40))
    forged = io.BytesIO()
    np.save(forged, order)
    with zipfile.ZipFile(path / CHECKPOINT, "w") as archive:
        for name, member in (members | {"order.npy": forged.getvalue()}).items():
            archive.writestr(name, member)
    with pytest.raises(ModelFolderError, match="the checkpoint is damaged"):
        xmlgp.train(small_dataset(), path, settings=SETTINGS)
