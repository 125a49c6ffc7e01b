"""The functions of `xmlgp` with texts, arrays and models in memory; the tests of commands use them with paths."""

import copy
import pickle
import pydoc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import xmlgp
from tests.problems import small_dataset
from xmlgp.estimators import MLGPFClassifier, TextTagger
from xmlgp.runtime.errors import SettingsError, UsageError
from xmlgp.runtime.progress import Reporter
from xmlgp.text.names import Names

TEXTS = ["Bread with butter and jam", "Grilled fish with lemon", "Lemon cake", "Fish soup with bread"] * 10
LABELS = [["breakfast"], ["dinner", "fish"], ["dessert"], ["fish"]] * 10


@pytest.fixture(scope="module")
def trained():
    return xmlgp.train(TEXTS, labels=LABELS, settings={"factors": 2, "epochs": 2})


@pytest.fixture
def dishes(trained):
    return copy.copy(trained)


def test_a_model_in_memory_predicts_explains_and_is_saved(dishes, tmp_path):
    (point,) = xmlgp.predict(dishes, ["fish with butter"], k=2, with_std=True)
    assert (point["id"], point["labels"][0]["label"], len(point["labels"])) == (1, "fish", 2)
    (explained,) = xmlgp.predict(dishes, ["fish with butter"], k=1, explain=1)
    assert explained["labels"][0]["for"][0]["word"] == "fish"
    dishes.save(tmp_path / "model")
    loaded = xmlgp.load(tmp_path / "model")
    assert list(xmlgp.predict(loaded, ["fish with butter"], k=2, with_std=True)) == [point]


def test_labels_are_evaluated_by_their_names(dishes):
    texts, true = ["fish with butter", "cake"], [["fish", "new"], ["dessert"]]
    ranking = xmlgp.predict(dishes, texts, k=2)
    told = []
    found = xmlgp.evaluate(ranking, true, train=dishes, reporter=Reporter(note=told.append))
    assert found.kind == "ranking"
    assert told[:2] == [
        "the model never lists 1 label of the data among the first 2 (1 of 3 true labels), which count as missed",
        "1 of these is unknown to the model or the training data",
    ]
    matrix = np.array([[0, 0, 0, 1, 1], [0, 1, 0, 0, 0]])
    expected = xmlgp.evaluate(np.pad(xmlgp.matrix(ranking).toarray(), [(0, 0), (0, 1)]), matrix).measures
    assert {name: found.measures[name] for name in expected} == pytest.approx(expected)
    for scores in list(ranking), xmlgp.matrix(ranking):
        assert xmlgp.evaluate(scores, true, train=dishes) == found
    assigned = xmlgp.evaluate([["fish"], ["dessert", "fish"]], true)
    assert (assigned.kind, assigned.measures["recall_micro"]) == ("assignment", 2 / 3)
    assert xmlgp.evaluate(xmlgp.predict(dishes, texts, threshold=0.2, k=1), true).kind == "assignment"
    assert "of the test data, which count as missed" in xmlgp.report(dishes, texts, labels=true)


def test_a_model_in_memory_learns_and_stays(dishes):
    grown = xmlgp.learn(dishes, ["Tomato salad"] * 3, labels=[["salad"]] * 3)
    assert grown.names.labels == [*dishes.names.labels, "salad"]
    assert xmlgp.matrix(xmlgp.predict(grown, ["Tomato salad"], k="all")).shape == (1, 5)
    assert "salad" not in dishes.names.labels


def test_arrays_are_trained_on_evaluated_and_reported():
    data = small_dataset()
    X, Y = data.features.sparse.toarray(), data.labels.toarray()
    model = xmlgp.train(X, labels=Y, settings={"factors": 3, "epochs": 2})
    expected = xmlgp.train(data, settings={"factors": 3, "epochs": 2})
    for name, array in expected.parameters.items():
        np.testing.assert_array_equal(model.parameters[name], array)
    found = xmlgp.evaluate(xmlgp.predict(model, X, k="all"), Y, train=model)
    assert found.measures == xmlgp.evaluate(xmlgp.predict(expected, data, k="all"), data, train=data).measures
    assert "<h1>Arrays</h1>" in xmlgp.report(model, X, labels=Y, title="Arrays")


def test_intervals_do_not_depend_on_threads_or_processes():
    random = np.random.default_rng(0)
    labels = random.random((3000, 30)) < 0.2
    probabilities = (labels + random.random((3000, 30))) / 2
    arguments = {"train": small_dataset(K=30), "measures": ["auc", "calibration"]}
    with threadpool_limits(1):
        expected = xmlgp.evaluate(probabilities, labels, **arguments).intervals
    with threadpool_limits(4):
        evaluation = xmlgp.evaluate(probabilities, labels, **arguments)
        assert evaluation.intervals == expected
    assert list(expected) == list(evaluation.measures)
    # As another process has it.
    sent = pickle.loads(pickle.dumps(xmlgp.evaluate(probabilities, labels, **arguments)))
    assert sent == evaluation
    assert sent.intervals == expected


def test_names_of_labels_of_arrays_are_those_that_the_model_knows():
    X = np.eye(4).repeat(5, axis=0)
    model = xmlgp.train(X, labels=[["b"], ["c"], ["d"], ["e"]] * 5, settings={"factors": 2, "epochs": 1})
    grown = xmlgp.learn(model, X[:2], labels=[["e"], ["a", "b"]])
    assert (model.names.labels, grown.names.labels) == (["b", "c", "d", "e"], ["b", "c", "d", "e", "a"])
    np.testing.assert_array_equal(grown.parameters["statistics.labels"], [6, 5, 5, 6, 1])
    unnamed = xmlgp.train(X, labels=X, settings={"factors": 2, "epochs": 1})
    assert unnamed.names == Names()
    with pytest.raises(SettingsError, match="^the model has no names of labels, so the labels of points must be a mat"):
        xmlgp.learn(unnamed, X, labels=[["b"]] * 20)


def test_arguments_that_contradict_each_other_are_refused(dishes):
    with pytest.raises(UsageError, match="^assign and threshold exclude each other"):
        xmlgp.predict(dishes, TEXTS, assign=True, threshold=0.5)
    for option, number in ("k", 0), ("k", "some"), ("k", True), ("explain", -1):
        with pytest.raises(UsageError, match=rf"^{option} must be a positive integer.*, not {number!r}\.$"):
            xmlgp.predict(dishes, TEXTS, **{option: number})
    with pytest.raises(UsageError, match="need labels"):
        xmlgp.train(np.ones((3, 2)))
    with pytest.raises(UsageError, match="^The second argument is the path of a model folder; give labels as labels=…"):
        xmlgp.train(TEXTS, LABELS)
    estimator = TextTagger()
    with pytest.raises(UsageError, match="^A model is a path or a TrainedModel, not TextTagger; a fitted estimator"):
        xmlgp.predict(estimator, TEXTS)
    for model in dishes, estimator:
        with pytest.raises(UsageError, match=r"^The scores are a model: give what it predicts, such as predict\("):
            xmlgp.evaluate(model, LABELS)


def test_masked_numbers_are_refused(dishes):
    masked = np.ma.masked_equal(np.eye(4), 1)
    for call in (
        lambda: xmlgp.train(masked, labels=np.eye(4)),
        lambda: xmlgp.train(np.eye(4), labels=masked),
        lambda: xmlgp.evaluate(masked, np.eye(4)),
    ):
        with pytest.raises(SettingsError, match="^some numbers are masked; leave out the points that have them, or "):
            call()


def test_labels_of_minus_one_are_refused(dishes):
    X = np.eye(4).repeat(5, axis=0)
    model, signs = xmlgp.train(X, labels=X, settings={"factors": 2, "epochs": 1}), 2 * X - 1
    for call in (
        lambda: xmlgp.train(X, labels=signs),
        lambda: xmlgp.learn(model, X, labels=signs),
        lambda: xmlgp.evaluate(xmlgp.predict(model, X, k="all"), signs),
        lambda: MLGPFClassifier().fit(X, signs),
        lambda: xmlgp.train(X, labels=X * np.nan),
    ):
        with pytest.raises(SettingsError, match="^Unknown label type: labels are .*; 1 says that"):
            call()


def test_help_and_completion_list_the_public_names():
    names = {"Source", "evaluate", "learn", "load", "predict", "report", "serve", "split", "train"}
    assert names <= set(xmlgp.__all__) <= set(dir(xmlgp))
    assert "predict(model: " in pydoc.render_doc(xmlgp, renderer=pydoc.plaintext)
