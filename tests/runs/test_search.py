"""Search: what is compared and on which points, what is dropped, resumed and recommended."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.metrics import f1_score

import xmlgp
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError, UsageError
from xmlgp.metrics.intervals import differences
from xmlgp.metrics.probabilities import log_loss
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.metrics.statistics import ratio
from xmlgp.runs import race
from xmlgp.runs.race import Folds, allowing_for, hopeless
from xmlgp.runs.search import search

#: The default settings of most searches here.
QUICK = {"model": "bmlpl", "topics": 6, "iterations": 12}


@pytest.fixture(scope="module")
def data():
    return small_dataset(N=240, D=20, K=6)


@pytest.fixture
def trainings(monkeypatch):
    """Return the list of settings that are trained."""
    trained = []
    train = race.train

    def recorded(dataset, settings, progress):
        trained.append(settings)
        return train(dataset, settings=settings, progress=progress)

    monkeypatch.setattr(race, "train", recorded)
    return trained


def facts(result):
    """Return all that a result says but for times."""
    return [(row.name, row.settings, row.value, row.interval, row.difference, row.folds) for row in result.rows]


def out_of_fold(data, settings, count, k, output=None):
    """Return scores of points by models that were trained without them, in order of folds, and their labels."""
    scores, labels = [], []
    for fold in range(count):
        points, held_out = Folds(data, count).split(fold)
        assert points.N + held_out.N == data.N
        model = xmlgp.train(points, settings=settings)
        scores.append(xmlgp.predict(model, held_out, k=k, output=output).matrix())
        labels.append(held_out.labels)
    return sp.csr_array(sp.vstack(scores, "csr")), sp.csr_array(sp.vstack(labels, "csr"))


def test_every_point_is_held_out_once(data):
    folds = Folds(data, 7, seed=3)
    sizes = [folds.split(fold)[1].N for fold in range(7)]
    assert (sum(sizes), max(sizes) - min(sizes)) == (240, 1)
    numbered = Dataset(Features(sp.csr_array(np.arange(1, 241, dtype=np.float32)[:, None])), data.labels)
    for fold in range(7):
        points, held_out = (part.features.sparse.data for part in Folds(numbered, 7, seed=3).split(fold))
        assert sorted([*points, *held_out]) == list(range(1, 241))


@pytest.mark.parametrize("metric", ["p@1", "nDCG@3", "psp@3", "macro-f1@3"])
def test_the_metric_is_that_of_predictions_out_of_the_fold(data, metric):
    result = search(data, {**QUICK, "iterations": [8]}, metric=metric, held_out=3)
    weights = propensities(data.labels)
    measures = {}
    for row in result.rows:
        assert row.folds == 3
        scores, labels = out_of_fold(data, row.settings, 3, 3)
        measures[row.name] = evaluate_ranking(scores, labels, (1, 3), weights)
        labelled = labels.sum(axis=1) > 0
        true, listed = labels.toarray()[labelled], scores.toarray()[labelled] > 0
        measures[row.name] |= {"macro-F1@3": 100 * f1_score(true, listed, average="macro")}
    (name,) = (name for name in measures["default"] if name.lower() == metric.lower())
    assert result.metric == name
    values = {row.name: row.value for row in result.rows}
    assert values == pytest.approx({key: measures[key][name] for key in measures})


def test_log_loss_is_over_all_labels_and_lower_is_better(data):
    result = search(data, {**QUICK, "cg_steps": [3]}, metric="log-loss", held_out=2)
    for row in result.rows:
        assert row.folds == 2
        expected = log_loss(*out_of_fold(data, row.settings, 2, "all", "probability"))
        assert row.value == pytest.approx(expected, rel=1e-6)
    assert result.rows[0].value < result.rows[1].value


def test_a_setting_that_matters_wins_and_its_recipe_trains_with_it(data, tmp_path):
    poor = tmp_path / "poor.yaml"
    poor.write_text("settings: {model: bmlpl, topics: 1, iterations: 12, seed: 3}")
    result = search(data, {"topics": [2, 6]}, tmp_path, recipe=poor, metric="p@1", held_out=4)
    assert result.worth.startswith("topics=6 is worth +")
    assert "allowing for the choice among 3" in result.worth
    assert (result.best.name, result.best.settings.topics) == ("topics=6", 6)
    model = xmlgp.train(data, recipe=tmp_path / "recipe.yaml")
    assert model.settings == result.best.settings
    assert xmlgp.train(data, recipe=str(tmp_path / "recipe.yaml"), settings={"topics": 4}).settings.topics == 4


def test_what_may_be_noise_is_called_so_and_the_recipe_has_the_default(data, tmp_path):
    result = search(data, {**QUICK, "weighting": ["unit", "none"]}, tmp_path, metric="p@1", held_out=4)
    assert result.rows[0].name == "weighting=unit"
    assert result.worth.startswith("weighting=unit is no better than the default beyond noise (+1.")
    low, high = allowing_for(result.rows[0].difference, 2)
    assert f"[{low:+.2f}, {high:+.2f}] P@1, allowing for the choice among 3): keep the default" in result.worth
    assert result.best.is_default
    assert xmlgp.train(data, recipe=tmp_path / "recipe.yaml").settings == result.best.settings


def test_settings_that_make_no_difference_are_not_better(data):
    told = []
    result = search(data, {**QUICK, "batch_size": [7]}, held_out=2, note=told.append)
    assert (result.worth, result.best.name) == ("no other settings are better than the default", "default")
    assert "batch_size has no effect with inference=em-cg" in told


def test_validation_points_are_judged_by_models_of_all_points(data):
    held = small_dataset(N=90, D=20, K=6, seed=9)
    result = search(data, {**QUICK, "topics": [3]}, metric="p@1", held_out=held)
    (row,) = (row for row in result.rows if row.name == "topics=3")
    model = xmlgp.train(data, settings=row.settings)
    assert row.value == pytest.approx(evaluate_ranking(xmlgp.predict(model, held).matrix(), held.labels)["P@1"])
    assert {row.folds for row in result.rows} == {1}


def test_an_interrupted_search_resumes_and_ends_in_the_same_table(data, tmp_path, trainings, monkeypatch):
    settings = {**QUICK, "topics": [3, 5]}
    expected = search(data, settings, metric="p@1", held_out=3)
    count = len(trainings)
    trainings.clear()
    recorded = race.train

    def interrupted(dataset, **options):
        if len(trainings) == 4:
            raise KeyboardInterrupt
        return recorded(dataset, **options)

    monkeypatch.setattr(race, "train", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        search(data, settings, tmp_path, metric="p@1", held_out=3)
    assert (caught.value.advice, caught.value.resumable) == ("stopped after 4 of 9 trainings", True)
    assert not (tmp_path / "recipe.yaml").exists()
    monkeypatch.setattr(race, "train", recorded)
    told = []
    assert facts(search(data, settings, tmp_path, metric="p@1", held_out=3, note=told.append)) == facts(expected)
    assert (len(trainings), told[0]) == (count, "4 of 9 trainings are done already")
    # Another metric needs no training.
    search(data, settings, tmp_path, metric="psp@3", held_out=3)
    assert len(trainings) <= count + 1
    # More values train only these; a damaged result is trained again; other data or folds are another search.
    search(data, {**QUICK, "topics": [3, 5, 4]}, tmp_path, metric="p@1", held_out=3)
    assert trainings[-1].topics == 4
    next((tmp_path / "folds").iterdir()).write_bytes(b"damaged")
    trainings.clear()
    assert facts(search(data, settings, tmp_path, metric="p@1", held_out=3)) == facts(expected)
    assert len(trainings) <= 1
    search(data.rows(slice(1, None)), settings, tmp_path, metric="p@1", held_out=3)
    assert len(trainings) > 5


def test_the_best_of_a_race_is_seldom_dropped_and_the_hopeless_soon(data):
    """The best of five is dropped in fewer than 5 % of races, though it is compared again after each fold."""
    random = np.random.default_rng(0)
    dropped = 0
    survivors = 0
    races = 100
    for _ in range(races):
        common = random.random((400, 1))
        hits = (0.7 * common + 0.3 * random.random((400, 6))) < [0.62, 0.6, 0.6, 0.6, 0.6, 0.3]
        alive = set(range(6))
        for points in (100, 200, 300):
            statistics = {str(name): ratio(hits[:points, name], np.ones(points)) for name in alive}
            alive -= set(map(int, hopeless(statistics, 5 * 3, 1)))
        dropped += 0 not in alive
        survivors += 5 in alive
    assert dropped <= 0.05 * races
    assert survivors == 0


def test_intervals_allow_for_several_comparisons():
    random = np.random.default_rng(0)
    a, b = (ratio(random.random(5000), np.ones(5000)) for _ in range(2))
    (difference,) = differences({"": a}, {"": b}).values()
    assert allowing_for(difference, 1) == pytest.approx(difference.interval)
    low, high = allowing_for(difference, 4)
    reach = stats.norm.ppf(1 - 0.05 / 8) / stats.norm.ppf(0.975)
    wide, narrow = high - low, difference.interval.high - difference.interval.low
    assert (wide, (low + high) / 2) == pytest.approx((reach * narrow, difference.difference))


def test_text_is_vectorized_once_and_unknown_labels_of_validation_points_are_noted():
    texts = ["red apple", "red cherry", "green apple", "green leaf", "yellow lemon", "red leaf"] * 8
    labels = [[colour] for colour in (text.split()[0] for text in texts)]
    told = []
    source = xmlgp.Source(texts, labels)
    held_out = xmlgp.Source(["red apple", "blue sky", "green leaf"], [["red"], ["blue"], ["green"]])
    result = search(source, {**QUICK, "topics": [3]}, metric="psp@1", held_out=held_out, note=told.append)
    assert any("unknown to the model and counted as missed (1 of 3 true labels): blue" in text for text in told)
    assert len(search(source, {**QUICK, "topics": [3]}, held_out=3).rows) == 2
    assert result.metric == "PSP@1"


@pytest.mark.parametrize(
    ("settings", "options", "error", "message"),
    [
        ({"factors": 3}, {}, UsageError, "There is nothing to compare"),
        ({"factors": [100]}, {}, UsageError, "There is nothing to compare"),
        ({"factors": [3, "x"]}, {}, SettingsError, "factors is 'x', but must be an integer"),
        ({"factor": [3]}, {}, SettingsError, "factor is not a setting; did you mean factors?"),
        ({"model": ["mlgpf", "gpc"]}, {}, SettingsError, "gpc"),
        ({"seed": list(range(1001))}, {}, UsageError, "There are more than 1000 combinations"),
        ({"factors": [3]}, {"metric": "accuracy"}, UsageError, "there are P@K, nDCG@K, PSP@K, PSnDCG@K, recall@K"),
        ({"factors": [3]}, {"metric": "p@0"}, UsageError, "the metric 'p@0' is unknown"),
        ({"factors": [3]}, {"held_out": 1}, UsageError, "the number of folds is 1, but must be from 2 to the 240"),
        ({"factors": [3]}, {"held_out": 241}, UsageError, "the number of folds is 241"),
        ({"factors": [3]}, {"recipe": "none.yaml"}, Exception, "none.yaml: the file cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_training(
    data, trainings, tmp_path, settings, options, error, message
):
    with pytest.raises(error) as caught:
        search(data, settings, tmp_path / "out", **options)
    assert message in str(caught.value)
    assert (trainings, list(tmp_path.iterdir())) == ([], [])
