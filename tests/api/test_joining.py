"""Points that join the index of a model at once: what changes, what stays, and what is predicted from then on."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmlgp
from tests.cli.command import run
from tests.cli.disk import everything
from tests.cli.texts import as_json
from tests.problems import small_dataset
from xmlgp.api.points import TrainingData
from xmlgp.data.dataset import Dataset, Features, stack, widen
from xmlgp.model_folder import folder as folders
from xmlgp.model_folder.kept_points import points_from
from xmlgp.neighbours.search import POSTINGS, build_index
from xmlgp.runtime.errors import ModelFolderError, SettingsError, UsageError
from xmlgp.runtime.progress import Reporter

SETTINGS = {"factors": 3, "epochs": 2, "batch_size": 16}
NEW = "A label that nobody had thought of"


def points(dense=False):
    """Return the points of training, and new ones with two more features and a new label."""
    data = small_dataset(60, D=27, K=8)
    if dense:
        data = Dataset(Features(data.features.sparse, np.random.default_rng(2).normal(size=(60, 5))), data.labels)
    first, more = data.rows(slice(0, 40)), data.rows(slice(40, None))
    known = Dataset(
        first.features.with_sparse(csr_array(first.features.sparse[:, :25])), csr_array(first.labels[:, :7])
    )
    return known, more


@pytest.mark.parametrize("dense", [False, True])
def test_the_index_is_that_of_all_points_and_the_rest_stays(tmp_path, dense):
    first, more = points(dense)
    before = xmlgp.train(first, tmp_path, settings=SETTINGS)
    learned = xmlgp.learn(tmp_path, more)
    found = xmlgp.load(tmp_path)
    assert (found.data["N"], found.data["D"], found.data["K"]) == (60, 27, 8)
    X = stack([Dataset(first.features.with_sparse(widen(first.features.sparse, 27)), widen(first.labels, 8)), more])
    scales = np.append(np.exp(before.parameters["latent_weights.log_prior"] / 2), [1, 1])
    counts = np.count_nonzero(X.features.sparse.toarray(), axis=0)
    # Earlier words keep their weights.
    idf = np.append(before.preprocessed.weighting.idf, np.sqrt(np.log(61 / (1 + counts[25:])) + 1))
    np.testing.assert_allclose(found.preprocessed.weighting.idf, idf, rtol=1e-6)
    rows = np.log1p(X.features.sparse.toarray()) * idf * scales
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    parameters = found.parameters
    index = [parameters[f"neighbours.{name}"] for name in ("values", "indices", "indptr")]
    np.testing.assert_allclose(csr_array(tuple(index), shape=(60, 27)).toarray(), rows, rtol=1e-5)
    built = build_index(csr_array(tuple(index), shape=(60, 27)))
    for name, array in zip(POSTINGS, built[1:], strict=True):
        np.testing.assert_array_equal(parameters[f"neighbours.{name}"], array)
    labels = [parameters[f"neighbours.{name}"] for name in ("labels", "label_indptr")]
    stored = csr_array((np.ones(len(labels[0])), *labels), shape=(60, 8))
    np.testing.assert_array_equal(stored.toarray(), X.labels.toarray())
    np.testing.assert_array_equal(parameters["statistics.labels"], X.labels.toarray().sum(axis=0))
    if dense:
        dense_rows = (X.features.dense - parameters["neighbours.dense_center"]) / parameters["neighbours.dense_width"]
        np.testing.assert_allclose(parameters["neighbours.dense_values"], dense_rows, atol=1e-3)
    changed = {name for name in parameters if not np.array_equal(parameters[name], before.parameters[name])}
    assert not any(name.startswith(("latent_weights", "label_weights")) for name in changed)
    assert changed.isdisjoint({"bias", "loadings", "calibration", "neighbours.choices", "neighbours.dense_center"})
    assert points_from(found.points, found.data).fingerprint == X.fingerprint
    # The model that is returned and the one in the folder are the same.
    for output in "utility", "probability":
        expected = learned.predictor.score(more.features, output, True)
        np.testing.assert_array_equal(found.predictor.score(more.features, output, True), expected)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "model"
    texts = [f"{kind} report number{i} about {kind}s and filler{i % 7}" for i in range(60) for kind in ("cat", "dog")]
    xmlgp.train(texts, path, labels=[[text.split()[0]] for text in texts], settings=SETTINGS)
    return path


@pytest.fixture
def model(tmp_path, trained):
    return shutil.copytree(trained, tmp_path / "model")


def probability(model, text, label):
    (found,) = xmlgp.predict(model, [text], k=None, output="probability")
    return {own["label"]: own["probability"] for own in found["labels"]}[label]


def test_a_label_that_was_seen_once_is_predicted_for_a_nearly_equal_text(model):
    learned = xmlgp.learn(model, ["a zebra crossed the street"], labels=[[NEW, "cat"]])
    for found in learned, model:
        assert probability(found, "zebra crossed the street", NEW) > 0.3
        assert probability(found, "cat report about cats", NEW) < 0.02
    (explained,) = xmlgp.predict(model, ["zebra report"], k=3, explain=4)
    # Nothing is known of its features.
    assert [(own["for"], own["against"]) for own in explained["labels"] if own["label"] == NEW] == [([], [])]


def test_a_correction_takes_the_place_of_the_document(model, tmp_path):
    texts = ["a zebra crossed the street", "a fox crossed the field"]
    fresh = shutil.copytree(model, tmp_path / "fresh")
    xmlgp.learn(model, texts, labels=[["dog"], [NEW]])
    assert probability(model, "zebra crossed the street", "dog") > 0.3
    notes = []
    reporter = Reporter(note=notes.append)
    # The words count, not their order.
    corrected = xmlgp.learn(model, ["The street a zebra crossed!"], labels=[["cat", NEW]], reporter=reporter)
    assert notes == [f"{model}: learned 1 point, in place of 1 with the same words; 122 in all"]
    for label, least, most in ("cat", 0.3, 1), (NEW, 0.3, 1), ("dog", 0, 0.15):
        assert least < probability(model, "zebra crossed the street", label) < most
    assert corrected.label_counts.tolist() == [61, 60, 2]
    assert corrected.data["N"] == 122
    # Training again is training on the corrected documents.
    names = corrected.names
    kept = points_from(corrected.points, corrected.data)
    assert [names.labels[label] for label in kept.labels[[120]].indices] == ["cat", NEW]
    xmlgp.learn(model, retrain=True)
    other = xmlgp.learn(fresh, texts, labels=[["cat", NEW], [NEW]], retrain=True)
    assert xmlgp.load(model).data["fingerprint"] == other.data["fingerprint"]
    # What was wrong once can be right again.
    back = xmlgp.learn(model, texts, labels=[["dog"], [NEW]])
    assert (back.data["N"], back.label_counts.tolist()) == (122, [60, 61, 1])


def test_documents_are_forgotten(model):
    before = xmlgp.load(model)
    xmlgp.learn(model, ["a zebra", "zebra report about cats"], labels=[[NEW], ["cat"]])
    Path(model.parent / "wrong.jsonl").write_text(as_json([{"text": "a zebra", "labels": ["any"]}]))
    result = run("learn", str(model), "--forget", str(model.parent / "wrong.jsonl"))
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, f"Note: {model}: forgot 1 point; 121 in all")
    found = xmlgp.load(model)
    assert found.names.labels == [*before.names.labels, NEW]
    assert found.label_counts.tolist() == [61, 60, 0]
    assert probability(model, "a zebra", NEW) < 0.05
    again = everything(model)
    result = run("learn", str(model), "--forget", str(model.parent / "wrong.jsonl"))
    assert (result.exit_code, everything(model)) == (1, again)
    assert result.stderr.endswith(f"{model} has none of these points, or no others, so it stays as it is\n")
    assert xmlgp.learn(model, ["a zebra"], labels=[[NEW]]).data["N"] == 122


def test_a_model_does_not_forget_what_it_does_not_keep_or_everything(model):
    trained = xmlgp.load(model)
    kept = points_from(trained.points, trained.data)
    labelled = TrainingData(kept, "", trained.names)
    with pytest.raises(SettingsError, match="has none of these points, or no others, so it stays as it is$"):
        xmlgp.learn(model, labelled, forget=True)
    trained.points = {}
    trained.save(model)
    with pytest.raises(SettingsError, match="keeps no training points; train again on all points together$"):
        xmlgp.learn(model, labelled, forget=True)


def test_labels_are_renamed(model):
    (before,) = xmlgp.predict(model, ["cat report"], k=None, output="probability")
    result = run("learn", str(model), "--rename", "cat=house  cat")
    assert (result.exit_code, result.stderr) == (0, f"Note: {model}: renamed 1 label; 2 in all\n")
    (after,) = xmlgp.predict(model, ["cat report"], k=None, output="probability")
    renamed = [own | {"label": {"cat": "house cat"}.get(own["label"], own["label"])} for own in before["labels"]]
    assert after["labels"] == renamed
    # An earlier name is free again.
    assert xmlgp.learn(model, ["cat report"], labels=[["cat"]]).names.labels == ["house cat", "dog", "cat"]


def test_labels_of_the_same_new_name_become_one(model):
    xmlgp.learn(model, ["a zebra", "a zebra and a dog"], labels=[[NEW, "dog"], ["cat"]])
    renamed = xmlgp.learn(model, rename={NEW: "dog"})
    assert renamed.names.labels == ["cat", "dog"]
    assert renamed.label_counts.tolist() == [61, 61]
    kept = points_from(renamed.points, renamed.data)
    assert kept.labels[[120]].indices.tolist() == [1]
    # It is the model that is trained on these points.
    anew = xmlgp.train(TrainingData(kept, "", renamed.names), settings=renamed.settings)
    assert all(np.array_equal(array, renamed.parameters[name]) for name, array in anew.parameters.items())


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ("none=cat", 1, "Error: there is no label 'none' to rename"),
        ("cat=", 2, "Error: Invalid value for '--rename': write OLD=NEW"),
        ("cat=a\x07b", 1, "Error: label 'a\\x07b' has "),
    ],
)
def test_a_change_that_cannot_be_leaves_the_model(model, change, status, reason):
    before = everything(model)
    result = run("learn", str(model), "--rename", change)
    assert (result.exit_code, everything(model)) == (status, before)
    assert result.stderr.splitlines()[-1].startswith(reason)


def test_labels_that_others_name_are_not_renamed(model):
    with pytest.raises(UsageError, match="^Labels are renamed without data and a vocabulary"):
        xmlgp.learn(model, ["a text"], labels=[["cat"]], rename={"cat": "dog"})
    numbered = xmlgp.train(points()[0], settings=SETTINGS)
    with pytest.raises(SettingsError, match="without names, or with those of a vocabulary or texts, are not renamed"):
        xmlgp.learn(numbered, rename={"1": "2"})


def test_a_new_label_that_is_not_suggested_is_not_called_learned(model):
    texts = [*(f"animal{i} report" for i in range(6)), "?"]
    notes = []
    xmlgp.learn(model, texts, labels=[[f"label {i}"] for i in range(7)], reporter=Reporter(note=notes.append))
    assert notes == [
        f"Warning: {model}: took in 7 points; 127 in all, but 1 new label is not among the first 5 suggestions "
        "for a document that has it, such as 'label 6'; learn more documents with it"
    ]


def test_points_join_one_after_the_other_as_all_at_once(model, tmp_path):
    other = shutil.copytree(model, tmp_path / "other")
    texts, labels = ["a zebra", "zebra report about cats"], [[NEW], ["cat", NEW]]
    for text, own in zip(texts, labels, strict=True):
        one_by_one = xmlgp.learn(model, [text], labels=[own])
    at_once = xmlgp.learn(other, texts, labels=labels)
    for name, array in at_once.parameters.items():
        np.testing.assert_allclose(one_by_one.parameters[name], array, rtol=0.1)
    notes = []
    for text, own in zip(texts, labels, strict=True):
        xmlgp.learn(model, [text], labels=[own], reporter=Reporter(note=notes.append))
    assert notes == [f"{model}: the model has learned these points already; nothing to do"] * 2
    in_memory = xmlgp.learn(xmlgp.load(model), ["a zebra and a fox"], labels=[[NEW]])
    assert in_memory.data["N"] == 123


def test_the_command_joins_and_trains_again(model):
    Path(model.parent / "more.jsonl").write_text(as_json([{"text": "zebra crossing", "labels": [NEW]}]))
    result = run("learn", str(model), str(model.parent / "more.jsonl"))
    assert result.stderr.splitlines()[-1] == f"Note: {model}: learned 1 point; 121 in all"
    assert "learned     1 point after 120" in run("show", str(model)).stdout
    result = run("learn", str(model), "--retrain")
    assert f"{model}: training again on 121 points\n" in result.stderr
    assert xmlgp.load(model).parameters["bias"].shape == (3,)


def test_learning_needs_no_kept_points(model):
    without = xmlgp.load(model)
    without.points = {}
    without.save(model)
    xmlgp.learn(model, ["a zebra"], labels=[[NEW]])
    assert not xmlgp.load(model).points
    assert run("learn", str(model), "--retrain").stderr.endswith(
        f"{model} keeps no training points; train again on all points together\n"
    )


def test_what_fails_while_the_model_is_written_leaves_the_one_before(model, monkeypatch):
    before = everything(model)

    def fail(path, description):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_description", fail)
        with pytest.raises(OSError, match="No space"):
            xmlgp.learn(model, ["a zebra"], labels=[[NEW]])
    assert everything(model) == before


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bias", lambda array: np.append(array, np.zeros(2, array.dtype))),
        ("loadings", lambda array: array[:-1]),
        ("statistics.labels", lambda array: array[:-1]),
        ("latent_weights.log_prior", lambda array: np.append(array, np.zeros(99, array.dtype))),
        ("latent_weights.mean", lambda array: array[:-1]),
        ("label_weights.indptr", lambda array: np.append(array, array[-1:])),
        ("label_weights.features", lambda array: np.where(array == array.max(), 74, array).astype(array.dtype)),
        ("neighbours.labels", lambda array: array + 1),
        ("neighbours.indices", lambda array: array + 2),
    ],
)
def test_damaged_sizes_are_refused(model, name, change):
    found = xmlgp.learn(model, ["zebra crossing"], labels=[[NEW]])
    assert found.data["D"] == 76
    found.parameters[name] = change(np.array(found.parameters[name]))
    found.save(model)
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other"):
        xmlgp.load(model)
