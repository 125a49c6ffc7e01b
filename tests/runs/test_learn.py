"""From more points to a model folder: what is kept, what is refused, and how points so far are counted."""

import hashlib
import os
import shutil
import signal

import numpy as np
import pytest
import scipy.sparse as sp

from tests.problems import small_dataset
from tests.runs.test_train import snapshot
from xmlgp.data.dataset import Dataset
from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf import learning
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.runs.interrupted import CHECKPOINT, InterruptedRun
from xmlgp.runs.learn import can_learn, learn_model, learn_points
from xmlgp.runs.stored import open_model
from xmlgp.runs.train import train_model
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.text.names import Names
from xmlgp.training import checkpoints
from xmlgp.training.trained import STATISTICS

SMALL = {"factors": 3, "label_weights": True, "regression_points": 0, "epochs": 2, "batch_size": 16}
SETTINGS = MLGPFSettings(inducing="features", **SMALL)

#: The model knows 40 points, 25 features and 7 labels.
KNOWN, MORE = small_dataset(), small_dataset(N=20, D=27, K=9, seed=3)
OTHER = small_dataset(N=20, D=27, K=9, seed=4)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 4)
    monkeypatch.setattr(learning, "LEAST_EPOCHS", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_model(KNOWN, tmp_path_factory.mktemp("trained") / "model", SETTINGS).path


@pytest.fixture
def model(tmp_path, trained):
    return shutil.copytree(trained, tmp_path / "model")


def arrays(path):
    return {name: array.tobytes() for name, array in ModelFolder(path).arrays("").items()}


def nothing(D=25, K=7):
    return Dataset(sp.csr_array((0, D), dtype=np.float32), sp.csr_array((0, K), dtype=bool))


def interrupt(path, dataset, monkeypatch, step=2, seconds=0.0):
    """Interrupt learning after a step, as if it had taken so many seconds."""

    def stopping(self, state, epoch_ended=False):
        if (found := state()).facts["step"] == step:
            self.save(found._replace(facts=found.facts | {"seconds": seconds}))
            raise Interrupted(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.CheckpointWriter, "maybe_save", stopping)
        with pytest.raises(Interrupted):
            learn_model(path, dataset)


def test_the_folder_has_the_model_of_learning(model):
    folder = ModelFolder(model)
    stored, data = open_model(folder), folder.description["data"]
    expected = learn_points(SETTINGS, stored.preprocessed, stored.parameters, data, MORE)
    found, learned = learn_model(model, MORE)
    assert learned
    for name, value in expected.parameters.items():
        np.testing.assert_array_equal(found.array(f"parameters.{name}"), value)
    assert {name: found.description["data"][name] for name in "NDK"} == {"N": 60, "D": 27, "K": 9}
    assert expected.data == found.description["data"]
    assert found.settings == SETTINGS
    assert open_model(found).predictor.label_count == 9


def test_points_so_far_are_a_chain_of_fingerprints(model):
    first = ModelFolder(model).description["data"]["fingerprint"]
    assert first == KNOWN.fingerprint
    chain = first
    for number, batch in enumerate((MORE, nothing(27, 10), small_dataset(N=5, D=28, K=10, seed=5))):
        found, learned = learn_model(model, batch)
        assert learned
        data = found.description["data"]
        if batch.N:
            chain = hashlib.sha256(f"{chain} {batch.fingerprint}".encode()).hexdigest()
        assert (data["fingerprint"], data["first"]) == (chain, first)
        assert len(found.description["learned"]) == number + 1
    assert {name: data[name] for name in "NDK"} == {"N": 65, "D": 28, "K": 10}
    assert [[batch[name] for name in "NDK"] for batch in found.description["learned"]] == [
        [20, 2, 2],
        [0, 0, 1],
        [5, 1, 0],
    ]


def test_statistics_are_those_of_all_points(model):
    learn_model(model, MORE)
    found, _ = learn_model(model, OTHER)
    for name, matrices in zip(STATISTICS, ("labels", "features"), strict=True):
        total = np.zeros(9 if matrices == "labels" else 27, int)
        for dataset in (KNOWN, MORE, OTHER):
            counts = (getattr(dataset, matrices).toarray() != 0).sum(axis=0)
            total[: len(counts)] += counts
        np.testing.assert_array_equal(found.array(f"parameters.{name}"), total)


def resized(dataset, D, K):
    """Return the same points, with room for more features and labels."""
    shapes = (dataset.features, D), (dataset.labels, K)
    return Dataset(*(sp.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], count)) for m, count in shapes))


def test_learned_points_are_known_again_with_more_features_and_labels(model):
    learn_model(model, MORE)
    learn_model(model, nothing(30, 12))
    learn_model(model, small_dataset(N=20, D=31, K=13, seed=5))
    before = snapshot(model)
    for dataset in (KNOWN, MORE, resized(MORE, 30, 12)):
        told = []
        folder, learned = learn_model(model, resized(dataset, 31, 13), note=told.append)
        assert not learned
        assert folder.path == model
        assert told == [f"{model}: the model has learned these points already; nothing to do"]
    assert snapshot(model) == before
    # As many points, but others.
    assert learn_model(model, resized(OTHER, 31, 13))[1]


@pytest.mark.parametrize(
    ("D", "K", "reason"),
    [
        (24, 7, "the points have 24 features, but the model was trained on 25"),
        (25, 6, "the points have 6 labels, but the model was trained on 7"),
    ],
)
def test_fewer_features_or_labels_are_refused(model, D, K, reason):
    before = snapshot(model)
    with pytest.raises(SettingsError) as caught:
        learn_model(model, small_dataset(N=5, D=D, K=K))
    assert str(caught.value) == f"{reason}; points to learn from need at least as many"
    assert snapshot(model) == before


NAMED = Names([f"label {k}" for k in range(7)], [f"feature {d}" for d in range(25)])
MORE_NAMES = Names([*NAMED.labels, "a", "b"], [*NAMED.features, "c", "d"])


def test_names_are_stored(tmp_path):
    train_model(KNOWN, tmp_path, SETTINGS, names=NAMED)
    found, _ = learn_model(tmp_path, MORE, MORE_NAMES)
    assert (found.names.labels, found.names.features) == MORE_NAMES[:2]
    # Without new ones they stay.
    found, _ = learn_model(tmp_path, OTHER)
    assert (found.names.labels, found.names.features) == MORE_NAMES[:2]


@pytest.mark.parametrize(
    "names",
    [
        None,
        Names(),
        NAMED,
        MORE_NAMES._replace(labels=MORE_NAMES.labels[::-1]),
        MORE_NAMES._replace(labels=MORE_NAMES.labels[:-1]),
        MORE_NAMES._replace(features=["other", *MORE_NAMES.features[1:]]),
        MORE_NAMES._replace(features=None),
    ],
    ids=["none", "empty", "too few", "reversed", "one fewer", "renamed", "no features"],
)
def test_names_that_do_not_go_on_are_refused(tmp_path, names):
    train_model(KNOWN, tmp_path, SETTINGS, names=NAMED)
    before = snapshot(tmp_path)
    with pytest.raises(SettingsError, match="the names of (labels|features) are not those of the model"):
        learn_model(tmp_path, MORE, names)
    assert snapshot(tmp_path) == before


def test_names_for_a_model_without_are_refused(model):
    with pytest.raises(SettingsError, match="the names of labels are not those of the model"):
        learn_model(model, MORE, MORE_NAMES)


def test_another_writer_is_refused(model):
    before = snapshot(model)
    with lock_model_folder(model):
        locked = snapshot(model)
        with pytest.raises(ModelFolderError, match="is writing this model"):
            learn_model(model, MORE)
        assert snapshot(model) == locked
    assert snapshot(model) == before


def test_models_that_cannot_learn_on_are_named():
    with pytest.raises(SettingsError) as caught:
        can_learn(GPCSettings())
    assert str(caught.value).startswith("a model of gpc cannot learn on, only mlgpf")
    assert str(caught.value).endswith(" can; train again on all points together")
    assert can_learn(SETTINGS) is learning.learn


@pytest.mark.parametrize("seconds", [59.0, 61.0])
def test_only_runs_of_less_than_a_minute_are_discarded_unasked(model, monkeypatch, seconds):
    interrupt(model, MORE, monkeypatch, seconds=seconds)
    before, told = snapshot(model), []
    if seconds > 60:
        for resume in (None, True):
            with pytest.raises(ModelFolderError, match="an unfinished run on other data exists"):
                learn_model(model, OTHER, resume=resume)
        assert snapshot(model) == before
        learn_model(model, OTHER, resume=False, note=told.append)
    else:
        learn_model(model, OTHER, note=told.append)
    assert told[0] == f"{model}: discarding the run that was interrupted after 2 of 6 steps"
    assert InterruptedRun.read(model) is None
    assert {batch["fingerprint"] for batch in ModelFolder(model).description["learned"]} == {OTHER.fingerprint}


def test_a_run_is_resumed_only_on_the_same_model(model, monkeypatch):
    interrupt(model, MORE, monkeypatch)
    checkpoint = (model / CHECKPOINT).read_bytes()
    learn_model(model, OTHER)
    # The model has learned something else since.
    (model / CHECKPOINT).write_bytes(checkpoint)
    told = []
    learn_model(model, MORE, note=told.append)
    assert told[0] == f"{model}: discarding the run that was interrupted after 2 of 6 steps"


def test_a_resumed_run_gives_the_same_model(model, monkeypatch, tmp_path):
    whole = shutil.copytree(model, tmp_path / "whole")
    learn_model(whole, MORE)
    for step in (1, 2, 3, 4):
        interrupt(model, MORE, monkeypatch, step)
        assert ModelFolder(model).description["data"]["N"] == 40
    told = []
    learn_model(model, MORE, note=told.append)
    assert told[0] == f"{model}: resuming after 4 of 6 steps"
    assert arrays(model) == arrays(whole)
    assert sorted(os.listdir(model)) == ["arrays", "model.json"]


def test_a_failure_before_the_first_checkpoint_leaves_the_folder(model, monkeypatch):
    before = snapshot(model)

    def failing(*arguments, **options):
        raise NumericalError("it fails")

    monkeypatch.setattr(learning.LearningOn, "step", failing)
    with pytest.raises(NumericalError, match="it fails"):
        learn_model(model, MORE)
    assert snapshot(model) == before


def test_a_failure_keeps_the_checkpoint(model, monkeypatch):
    interrupt(model, MORE, monkeypatch)
    before = snapshot(model)

    def failing(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("xmlgp.runs.learn._write", failing)
        with pytest.raises(OSError, match="No space left"):
            learn_model(model, MORE)
    after = snapshot(model)
    assert after.keys() == before.keys()
    assert InterruptedRun.read(model).step >= 2
    assert learn_model(model, MORE)[1]
