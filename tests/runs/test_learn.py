"""From more points to a model folder: what is kept, what is refused, and how points so far are counted."""

import hashlib
import os
import shutil
import signal
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.held_out import calibrated
from tests.mlgpf.test_memory import INDUCING, SAMPLED, wide_dataset
from tests.problems import paired_dataset, small_dataset
from tests.runs.test_train import snapshot
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.dataset import Dataset, no_points
from xmlgp.data.features import Features
from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.inputs.training_data import TrainingData
from xmlgp.mlgpf import incremental, learning_steps
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.lock import lock_model_folder
from xmlgp.models import MODELS
from xmlgp.runs.batch import has_learned
from xmlgp.runs.interrupted import CHECKPOINT, InterruptedRun
from xmlgp.runs.learn import learn_points
from xmlgp.runtime.interrupts import Interrupted, handle_signals
from xmlgp.text.names import Names
from xmlgp.training import checkpoints
from xmlgp.training.trained import STATISTICS, Earlier

SETTINGS = MLGPFSettings(
    inducing="features", factors=3, label_weights=True, regression_points=0, epochs=2, batch_size=16
)

#: The model knows 40 points, 25 features and 7 labels.
KNOWN, MORE = small_dataset(), small_dataset(N=20, D=27, K=9, seed=3)
OTHER = small_dataset(N=20, D=27, K=9, seed=4)


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 8)
    monkeypatch.setattr(learning_steps, "LEAST_EPOCHS", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return xmlgp.train(KNOWN, tmp_path_factory.mktemp("trained") / "model", settings=SETTINGS).folder.path


@pytest.fixture
def model(tmp_path, trained):
    return shutil.copytree(trained, tmp_path / "model")


def interrupt(path, dataset, monkeypatch, seconds=0.0, error=None):
    """Interrupt learning after two steps, which took so many seconds; return the interruption."""
    error = error or Interrupted(signal.SIGINT)

    def stopping(self, state, epoch_ended=False):
        if (found := state()).facts["step"] == 2:
            self.save(found._replace(facts=found.facts | {"seconds": seconds}))
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.CheckpointWriter, "maybe_save", stopping)
        with pytest.raises(type(error)) as caught:
            xmlgp.learn(path, dataset)
    return caught.value


def test_the_folder_has_the_model_of_learning(model):
    expected, found = learn_points(xmlgp.load(model), MORE), xmlgp.learn(model, MORE)
    for name, value in expected.parameters.items():
        np.testing.assert_array_equal(found.parameters[name], value)
    assert {name: found.data[name] for name in "NDK"} == {"N": 60, "D": 27, "K": 9}
    assert (found.data, found.settings) == (expected.data, SETTINGS)
    assert found.predictor.label_count == 9


def test_points_so_far_are_a_chain_of_fingerprints(model):
    first = chain = KNOWN.fingerprint
    for number, batch in enumerate((MORE, no_points(27, 10), small_dataset(N=5, D=28, K=10, seed=5))):
        found = xmlgp.learn(model, batch)
        if batch.N:
            chain = hashlib.sha256(f"{chain} {batch.fingerprint}".encode()).hexdigest()
        assert (found.data["fingerprint"], found.data["first"]) == (chain, first)
        assert len(found.learned) == number + 1
    assert {name: found.data[name] for name in "NDK"} == {"N": 65, "D": 28, "K": 10}
    assert [[batch[name] for name in "NDK"] for batch in found.learned] == [[20, 2, 2], [0, 0, 1], [5, 1, 0]]


def test_statistics_are_those_of_all_points(model):
    xmlgp.learn(model, MORE)
    found = xmlgp.learn(model, OTHER)
    for name, count in zip(STATISTICS, (9, 27), strict=True):
        total = np.zeros(count, int)
        for dataset in (KNOWN, MORE, OTHER):
            matrix = dataset.labels if name == "statistics.labels" else dataset.features.sparse
            counts = (matrix.toarray() != 0).sum(axis=0)
            total[: len(counts)] += counts
        np.testing.assert_array_equal(found.parameters[name], total)


def resized(dataset, D, K):
    """Return the same points, with room for more features and labels."""
    shapes = (dataset.features.sparse, D), (dataset.labels, K)
    X, Y = (sp.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], count)) for m, count in shapes)
    return Dataset(Features(X), Y)


def test_learned_points_are_known_again_with_more_features_and_labels(model):
    xmlgp.learn(model, MORE)
    xmlgp.learn(model, no_points(30, 12))
    xmlgp.learn(model, small_dataset(N=20, D=31, K=13, seed=5))
    before = snapshot(model)
    for dataset in (KNOWN, MORE, resized(MORE, 30, 12)):
        told = []
        assert xmlgp.learn(model, resized(dataset, 31, 13), note=told.append).folder.path == model
        assert told == [f"{model}: the model has learned these points already; nothing to do"]
    assert snapshot(model) == before
    # As many points, but others.
    assert len(xmlgp.learn(model, resized(OTHER, 31, 13)).learned) == 4


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
        xmlgp.learn(model, small_dataset(N=5, D=D, K=K))
    assert str(caught.value) == f"{reason}; points to learn from need at least as many"
    assert snapshot(model) == before


NAMED = Names([f"label {k}" for k in range(7)], [f"feature {d}" for d in range(25)])
MORE_NAMES = Names([*NAMED.labels, "a", "b"], [*NAMED.features, "c", "d"])


def test_names_are_stored(tmp_path):
    xmlgp.train(TrainingData(KNOWN, "", NAMED), tmp_path, settings=SETTINGS)
    assert xmlgp.learn(tmp_path, TrainingData(MORE, "", MORE_NAMES)).names == MORE_NAMES
    # Without new ones they stay.
    assert xmlgp.learn(tmp_path, OTHER).names == MORE_NAMES


def test_a_folder_does_not_lose_its_names(tmp_path):
    xmlgp.train(TrainingData(KNOWN, "", NAMED), tmp_path, settings=SETTINGS)
    before = snapshot(tmp_path)
    for dataset, kind in (small_dataset(D=27), "features"), (small_dataset(K=9), "labels"):
        with pytest.raises(SettingsError, match=f"has names of {kind}, but the points have {kind} without a name$"):
            xmlgp.learn(tmp_path, dataset)
    assert snapshot(tmp_path) == before
    in_memory = replace(xmlgp.load(tmp_path), folder=None)
    assert xmlgp.learn(in_memory, MORE).names == Names()


def test_another_writer_is_refused(model):
    before = snapshot(model)
    with lock_model_folder(model):
        locked = snapshot(model)
        with pytest.raises(ModelFolderError, match="is writing this model"):
            xmlgp.learn(model, MORE)
        assert snapshot(model) == locked
    assert snapshot(model) == before


def test_models_that_cannot_learn_on_are_named(tmp_path):
    xmlgp.train(small_dataset(K=1), tmp_path, settings=GPCSettings(inducing_count=3, iterations=1))
    with pytest.raises(SettingsError) as caught:
        xmlgp.learn(tmp_path, MORE)
    assert str(caught.value).startswith("a model of gpc cannot learn on, only mlgpf")
    assert str(caught.value).endswith(" can; train again on all points together")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no notes of exceptions")
def test_in_python_an_interruption_has_a_note_of_what_is_left(model, monkeypatch):
    left = "stopped after 2 of 14 steps of learning, and the model is unchanged; learn the same points again to resume"
    assert interrupt(model, MORE, monkeypatch, error=KeyboardInterrupt()).__notes__ == [f"{model}: {left}"]
    told = []
    xmlgp.learn(model, MORE, note=told.append)
    assert told[0] == f"{model}: resuming after 2 of 14 steps of learning"


def test_a_discarded_run_is_gone_before_the_next_begins(model, monkeypatch):
    interrupt(model, MORE, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(
            incremental.IncrementalTraining, "__init__", lambda *arguments: os.kill(os.getpid(), signal.SIGTERM)
        )
        with pytest.raises(Interrupted) as caught, handle_signals():
            xmlgp.learn(model, OTHER, resume=False)
    assert (caught.value.advice, caught.value.resumable) == ("the model is unchanged", False)
    assert InterruptedRun.read(model) is None


# A run that took long is not discarded for another, but this one can never be resumed.
@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_run_is_resumed_only_on_the_same_model(model, monkeypatch, seconds):
    interrupt(model, MORE, monkeypatch, seconds)
    checkpoint = (model / CHECKPOINT).read_bytes()
    xmlgp.learn(model, OTHER, resume=False)
    # The model has learned something else since.
    (model / CHECKPOINT).write_bytes(checkpoint)
    told = []
    xmlgp.learn(model, MORE, note=told.append)
    assert told[0] == f"{model}: discarding the run that was interrupted after 2 of 14 steps of learning"


def memory_of_learning(model, dataset):
    earlier = Earlier(model.settings, model.preprocessed, model.parameters, *(model.data[name] for name in "NDK"))
    return MODELS[model.settings.model].memory_of_learning(earlier, dataset)


@pytest.mark.parametrize(
    ("known", "batches", "settings"),
    [
        (100, [50, 3000], SAMPLED | {"label_weights": False, "regression_points": 0, "replay": 0}),
        (100, [50, 3000], SAMPLED | {"label_weights": False, "regression_points": 0}),
        # The smaller batch replays 1,500 points, the larger one all.
        (2000, [50, 3000], SAMPLED | {"label_weights": True, "regression_points": 0}),
        (2000, [50], SAMPLED | {"label_weights": True, "regression_points": 0, "replay": 300}),
        (100, [3000], INDUCING),
        (100, [3000], {"model": "bmlpl", "topics": 50, "iterations": 1}),
    ],
    ids=str,
)
def test_the_memory_that_is_checked_is_most_of_the_peak_and_never_more(monkeypatch, known, batches, settings):
    monkeypatch.setattr("xmlgp.label_weights.pairs.MIN_PAIRS", 1000)
    # An index of labels takes a constant ten megabytes.
    for module in ("indexing", "sweep_data"):
        monkeypatch.setattr(f"xmlgp.mlgpf.{module}.FEWEST_LABELS", 10_000)
    model = xmlgp.train(wide_dataset(N=known), settings=settings)
    for points in batches:
        dataset = wide_dataset(points, D=5100, K=6100)
        # The first call compiles functions.
        learn_points(model, dataset)
        tracemalloc.start()
        try:
            learn_points(model, dataset)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert 0.4 * peak < sum(part.size for part in memory_of_learning(model, dataset)) <= peak


def test_covariances_of_the_regression_count(monkeypatch):
    with calibrated(0.25):
        model = xmlgp.train(paired_dataset(N=120), settings={"factors": 3, "epochs": 5, "label_weights": True})
    parts = {part.purpose: part for part in memory_of_learning(model, paired_dataset(N=1000, seed=1))}
    found = parts["the covariances of exact GP regression"]
    assert 4 * 1120**2 < found.size < 1.1 * 4 * 1120**2
    assert found.advice == "a smaller batch lowers that"


@pytest.mark.parametrize("kind", ["mlgpf", "bmlpl"])
def test_what_does_not_fit_into_memory_is_refused_and_nothing_changes(model, monkeypatch, kind):
    if kind == "bmlpl":
        shutil.rmtree(model)
        xmlgp.train(KNOWN, model, settings=BMLPLSettings(topics=3, iterations=2))
    interrupt(model, MORE, monkeypatch)
    before, in_memory = snapshot(model), replace(xmlgp.load(model), folder=None)
    needed = sum(part.size for part in memory_of_learning(in_memory, OTHER))
    monkeypatch.setattr("xmlgp.model.available_memory", lambda: needed - 1)
    for given in model, in_memory:
        with pytest.raises(SettingsError, match=r"^learning needs at least 0\.0 GB of memory, but 0\.0 GB are avail"):
            xmlgp.learn(given, OTHER, resume=False)
    assert snapshot(model) == before
    monkeypatch.setattr("xmlgp.model.available_memory", lambda: needed)
    xmlgp.learn(model, OTHER, resume=False)
    # It learns nothing, which needs no memory.
    monkeypatch.setattr("xmlgp.model.available_memory", lambda: 0)
    xmlgp.learn(model, OTHER)


def test_a_failure_before_the_first_checkpoint_leaves_the_folder(model, monkeypatch):
    before = snapshot(model)

    def failing(*arguments, **options):
        raise NumericalError("it fails")

    monkeypatch.setattr(incremental.IncrementalTraining, "step", failing)
    with pytest.raises(NumericalError, match="it fails"):
        xmlgp.learn(model, MORE)
    assert snapshot(model) == before


def test_a_failure_keeps_the_checkpoint(model, monkeypatch):
    interrupt(model, MORE, monkeypatch)
    before = snapshot(model)

    def failing(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("xmlgp.runs.learn.write_model", failing)
        with pytest.raises(OSError, match="No space left"):
            xmlgp.learn(model, MORE)
    assert snapshot(model).keys() == before.keys()
    assert InterruptedRun.read(model).step >= 2
    assert len(xmlgp.learn(model, MORE).learned) == 1


def test_the_earliest_of_many_batches_are_one_entry(monkeypatch):
    monkeypatch.setattr("xmlgp.runs.learn.MOST_BATCHES", 3)
    grown = xmlgp.train(KNOWN, settings=SETTINGS)
    batches = [small_dataset(N=10 + own, D=25 + own, K=7 + own, seed=own) for own in range(5)]
    for batch in batches:
        grown = learn_points(grown, batch)
    assert [(own["N"], own["D"], own["K"]) for own in grown.learned] == [(33, 2, 2), (13, 1, 1), (14, 1, 1)]
    assert (grown.learned[0]["fingerprint"], grown.learned[0]["history"]) == ("", [])
    # It still tells the points that it was trained on, and those of the last batches.
    assert [has_learned(grown, points) for points in (KNOWN, *batches)] == [True, False, False, False, True, True]
