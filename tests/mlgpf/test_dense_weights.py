"""What dense features are worth beside words: the weights that held-out points choose, zero included."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.grids import grid
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Dense, Features
from xmlgp.gp.weight_space import names_of
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf import dense_weights, held_out
from xmlgp.mlgpf.dense_weights import DenseWeights, pooled_parameters
from xmlgp.mlgpf.record import MLGPF
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.regression.neighbours import FAR, fit_neighbours
from xmlgp.regression.regression import scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.work.connection import open_work

SETTINGS = {"factors": 5, "epochs": 4, "label_weights": True, "regression_points": 0}
K = 12


def planted(count=600, seed=1, informative=1.0, widths=(6,), labels=K):
    """Return points whose labels depend on their words, and on their first dense block as far as it is informative."""
    random = np.random.default_rng(seed)
    weights = np.random.default_rng(99).normal(size=(40 + widths[0], labels))
    words = (random.random((count, 40)) < 0.15).astype(np.float32)
    dense = random.normal(size=(count, sum(widths)))
    utility = 2 * words @ weights[:40] + informative * dense[:, : widths[0]] @ weights[40:] - 3
    Y = sp.csr_array(random.random(utility.shape) < 1 / (1 + np.exp(-2 * utility)))
    ends = np.cumsum(widths)[:-1]
    blocks = tuple(block.astype(np.float32) for block in np.split(dense, ends, axis=1))
    return Dataset(Features(sp.csr_array(words), Dense(blocks)), Y)


def without_dense(points):
    return Dataset(Features(points.features.sparse), points.labels)


def ndcg(model, points):
    dense = list(points.features.dense.arrays) if "dense" in model.data else None
    scores = xmlgp.predict(model, points.features.sparse, dense=dense, k=5).matrix()
    return evaluate_ranking(scores, points.labels, ks=(5,))["nDCG@5"]


@pytest.fixture(scope="module")
def points():
    return planted()


@pytest.fixture(scope="module")
def model(points):
    return xmlgp.train(points, settings=SETTINGS)


@pytest.mark.parametrize("regression_points", [0, 1000])
def test_with_weights_of_zero_the_model_is_that_of_words_alone(points, monkeypatch, tmp_path, regression_points):
    monkeypatch.setattr(dense_weights, "JOINT_WEIGHTS", (0.0,))
    monkeypatch.setattr(dense_weights, "NEIGHBOUR_WEIGHTS", (0.0,))
    settings = SETTINGS | {"regression_points": regression_points}
    alone = xmlgp.train(without_dense(points), settings=settings)
    both = xmlgp.train(points, tmp_path / "model", settings=settings)
    assert both.parameters.keys() - alone.parameters.keys() == {"replay.dense"}
    for name, array in alone.parameters.items():
        np.testing.assert_array_equal(both.parameters[name], array, err_msg=name)
    assert both.held_out.dense_gains == (0,)
    # Such a model does what others do.
    read = xmlgp.load(tmp_path / "model")
    later = planted(40, 2)
    dense = later.features.dense.arrays[0]
    scores = xmlgp.predict(read, later.features.sparse, dense=dense, k=5, explain=3)
    expected = xmlgp.predict(alone, later.features.sparse, k=5).matrix().toarray()
    np.testing.assert_array_equal(scores.matrix().toarray(), expected)
    learned = xmlgp.learn(read, later)
    assert np.isfinite(xmlgp.predict(learned, later.features.sparse, dense=dense).matrix().data).all()


def test_a_block_that_says_much_gains_much(points, model):
    later = planted(400, 2)
    alone = xmlgp.train(without_dense(points), settings=SETTINGS)
    assert ndcg(model, later) > ndcg(alone, later) + 5
    assert model.held_out.dense_gains[0] > 5
    words = model.held_out.worth_of_dense(["encoder"])
    assert words.startswith("what dense features add to the nDCG@5 of 60 held-out points: encoder +")


def test_a_block_of_noise_costs_next_to_nothing():
    noise = planted(informative=0)
    later = planted(600, 2, informative=0)
    alone = xmlgp.train(without_dense(noise), settings=SETTINGS)
    both = xmlgp.train(noise, settings=SETTINGS)
    assert ndcg(both, later) > ndcg(alone, later) - 1


@pytest.mark.parametrize("joint", [0, 0.25, 0.75, 1])
def test_pooled_utilities_are_the_weighted_means(model, points, joint):
    random = np.random.default_rng(0)
    P = 5
    mean, log_variance, _ = names_of("latent_weights")
    words = {name: array for name, array in model.parameters.items() if not name.startswith(("neighbours", "dense"))}
    words |= {mean: random.normal(size=(40, P)), "loadings": random.normal(size=(K, P)), "bias": random.normal(size=K)}
    words = {name: array.astype("f4") if array.dtype == "f8" and array.ndim else array for name, array in words.items()}
    block = dict(zip(names_of("dense_weights"), (random.normal(size=(6, P)), np.zeros(6), np.zeros(6)), strict=True))
    other = words | {name: array.astype("f4") for name, array in block.items()}
    other |= {name: words[name][::-1] for name in (mean, log_variance, "loadings", "bias")}
    pooled = pooled_parameters(words, other, DenseWeights(joint, 0), [(0, 6)])
    first, second, found = (utilities(model, parameters, points) for parameters in (words, other, pooled))
    np.testing.assert_allclose(found, (1 - joint) * first + joint * second, rtol=1e-4, atol=1e-4)


def utilities(model, parameters, points):
    """Return the utilities of all labels by a model with these parameters, without its calibration."""
    without = {name: array for name, array in parameters.items() if name != "calibration"}
    other = dataclasses.replace(model, parameters=without, folder=None)
    dense = points.features.dense.arrays[0]
    return xmlgp.predict(other, points.features.sparse, dense=dense, k="all", output="utility").matrix().toarray()


@pytest.fixture
def judged(monkeypatch):
    """Return a list, to which functions of the arguments of each judgement can be added; later stages change these."""
    results = []
    functions = []
    original = dense_weights.judge_dense_features

    def recorded(*arguments):
        worth = original(*arguments)
        results.extend((worth, function(arguments)) for function in functions)
        return worth

    monkeypatch.setattr(held_out, "judge_dense_features", recorded)
    return functions, results


def all_scores(judgement, v, w, output):
    """Return the scores of all labels of the held-out points, J×K, by a predictor of the whole model."""
    make_predictor, words, joint, neighbours, points, _ = judgement
    parameters = pooled_parameters(words, joint, DenseWeights(v, w), points.features.dense.bounds())
    if w:
        parameters = parameters | neighbours._replace(weight=np.array(w)).parameters()
    return make_predictor(parameters).score(points.features, output)[0]


def gains_and_losses(judgement, v, w, ranking):
    """Return nDCG@5 of the points that have labels, and the log loss of all labels of each point."""
    points = judgement[4]
    scores = all_scores(judgement, v, w, ranking).astype(float)
    probabilities = np.clip(all_scores(judgement, v, w, "probability").astype(float), 1e-7, 1 - 1e-7)
    true = points.labels.toarray()
    losses = -np.log(np.where(true, probabilities, 1 - probabilities))
    if points.unknown is not None:
        unknown = points.unknown.toarray()
        scores[unknown] = -np.inf
        losses[unknown] = 0
    gains = []
    for row in np.flatnonzero(true.any(axis=1)):
        hits = true[row, np.argsort(-scores[row], kind="stable")[:5]]
        discounts = 1 / np.log2(np.arange(2, 7))
        gains.append(hits @ discounts / discounts[: true[row].sum()].sum())
    return np.array(gains), losses.sum(axis=1)


def unjudged_pairs(points):
    unknown = ~points.labels.toarray() & (np.random.default_rng(3).random(points.labels.shape) < 0.3)
    return dataclasses.replace(points, unknown=sp.csr_array(unknown))


@grid(ranking=["utility", "probability"], unknown=[False, True], informative=[0.6, 1.0])
def test_the_weights_are_those_of_the_rule(judged, ranking, unknown, informative):
    """A literal implementation of the rule, by the scores of all labels."""
    points = planted(500, informative=informative)
    settings = SETTINGS | {"ranking": ranking, "epochs": 2}
    pairs = list(itertools.product(dense_weights.JOINT_WEIGHTS, dense_weights.NEIGHBOUR_WEIGHTS))
    functions, results = judged
    functions.append(lambda judgement: [gains_and_losses(judgement, v, w, ranking) for v, w in pairs])
    xmlgp.train(unjudged_pairs(points) if unknown else points, settings=settings)
    ((worth, measured),) = results
    gains, losses = (np.array(measures) for measures in zip(*measured, strict=True))
    good = list(range(len(pairs)))
    for measures, errors in (-gains, 2), (losses, 1):
        lowest = min(good, key=lambda number: measures[number].mean())
        differences = measures - measures[lowest]
        limits = errors * differences.std(axis=1) / measures.shape[1] ** 0.5
        good = [number for number in good if differences[number].mean() <= limits[number] + 1e-12]
    v = min(pairs[number][0] for number in good)
    best = min((number for number in good if pairs[number][0] == v), key=lambda number: losses[number].mean())
    best = best if gains[best].mean() >= gains[0].mean() else 0
    assert worth.weights == (*pairs[best], ())
    assert worth.weights.neighbours > 0 or (unknown and informative < 1)
    np.testing.assert_allclose(worth.gains, [100 * (gains[best] - gains[0]).mean()], rtol=1e-5)


@grid(joint=[0.0, 0.5], neighbours=[0.0, 0.4])
def test_the_gain_is_that_of_the_ranking_of_all_labels(judged, monkeypatch, joint, neighbours):
    """With many more labels than are listed of each point."""
    monkeypatch.setattr(dense_weights, "JOINT_WEIGHTS", (joint,))
    monkeypatch.setattr(dense_weights, "NEIGHBOUR_WEIGHTS", (neighbours,))
    monkeypatch.setattr(dense_weights, "LISTED", 20)
    functions, results = judged
    functions.append(
        lambda judgement: [
            np.mean(gains_and_losses(judgement, *weights, "probability")[0])
            for weights in ((0, 0), (joint, neighbours))
        ]
    )
    xmlgp.train(planted(400, labels=80), settings=SETTINGS | {"epochs": 2})
    ((worth, (alone, both)),) = results
    assert worth.gains == pytest.approx([100 * (both - alone)], abs=1e-4)
    assert bool(both - alone) == bool(joint or neighbours)


def test_a_block_of_noise_is_dropped_and_the_other_is_not(judged):
    functions, results = judged

    def gains(judgement):
        weights = dense_weights.judge_dense_features(*judgement).weights
        return [dense_weights._Judge(*judgement).score(used) for used in (DenseWeights(0, 0), weights)]

    functions.append(gains)
    model = xmlgp.train(planted(900, 2, widths=(6, 40)), settings=SETTINGS)
    first, second = model.held_out.dense_gains
    assert first > 4
    assert second == 0
    # Words alone have no weights, so this is not what is lost by dropping both blocks.
    ((_, (alone, both)),) = results
    assert first == pytest.approx(both[0] - alone[0])
    assert model.held_out.dense_total == pytest.approx(first)
    words = model.held_out.worth_of_dense(["encoder", "dense 1"])
    *_, (low, high) = model.held_out.dense_intervals
    assert 0 < low < first < high
    assert words.endswith(f": encoder +{first:.1f} [{low:+.1f}, {high:+.1f}], dense 1 nothing, it is dropped")
    means = model.parameters["dense_weights.mean"]
    assert means[:6].any(axis=1).all()
    assert not means[6:].any()
    assert (model.parameters["neighbours.lengthscales"] == FAR).tolist() == [False] * 7 + [True] * 40
    assert not model.parameters["neighbours.dense"][:, 6:].any()
    # What the dropped block says changes nothing, also in what the model learns.
    later = planted(50, 3, widths=(6, 40))
    signal, noise = later.features.dense.arrays
    for other in model, xmlgp.learn(model, later):
        scores, again = (
            xmlgp.predict(other, later.features.sparse, dense=[signal, block], k=5).matrix().toarray()
            for block in (noise, 7 - 3 * noise)
        )
        np.testing.assert_allclose(scores, again, atol=1e-4)


def test_of_a_block_that_is_given_twice_one_stays(points, model):
    block = points.features.dense.arrays[0]
    twice = Dataset(Features(points.features.sparse, Dense((block, block))), points.labels)
    both = xmlgp.train(twice, settings=SETTINGS)
    used = [both.parameters["neighbours.lengthscales"][column] != FAR for column in (1, 7)]
    assert any(used)
    later = planted(400, 2)
    arrays = [later.features.dense.arrays[0]] * 2
    scores = xmlgp.predict(both, later.features.sparse, dense=arrays, k=5).matrix()
    assert evaluate_ranking(scores, later.labels, ks=(5,))["nDCG@5"] > ndcg(model, later) - 2


@pytest.mark.parametrize(("count", "chosen"), [(90, {}), (300, {"calibration": False})], ids=["few", "none"])
def test_without_enough_held_out_points_the_weights_are_the_default(count, chosen):
    model = xmlgp.train(planted(count), settings=SETTINGS | chosen)
    assert model.held_out is None
    weights = [float(model.parameters[name]) for name in ("joint.weight", "neighbours.weight")]
    assert weights == [dense_weights.UNJUDGED.joint, dense_weights.UNJUDGED.neighbours]
    # All points are neighbours.
    assert len(model.parameters["neighbours.dense"]) == count
    assert ndcg(model, planted(200, 2)) > 50


@grid(output=["utility", "probability"], k=[1, 5, 60], weight=[0.2, 0.6])
def test_the_first_of_many_labels_are_those_of_highest_score(many, output, k, weight):
    """Also where neighbours have fewer labels, whose order depends on the variances that the pool makes smaller."""
    model, points = many
    regression = fit_neighbours(model.preprocessed.weigh(points.features[:20]), few_labels(points), None)
    parameters = model.parameters | regression._replace(weight=np.array(weight)).parameters()
    predictor = MLGPF.load_predictor()(model.settings, model.preprocessed, parameters, points.features.D)
    assert predictor._utilities.bounds is not None
    later = planted(40, 2).features
    values, _ = predictor.score(later, output)
    (found,) = predictor.top(later, k, output)
    chosen = np.take_along_axis(values, found.labels.reshape(40, k), axis=1)
    np.testing.assert_allclose(chosen, -np.sort(-values, axis=1)[:, :k], rtol=1e-6, atol=1e-7)


@pytest.fixture(scope="module")
def many():
    """Return a model of 1,100 labels, whose label weights have different variances, and its points."""
    points = planted(200, labels=1100)
    rare = points.labels.toarray() & (np.random.default_rng(1).random(points.labels.shape) < 0.02)
    points = Dataset(points.features, sp.csr_array(rare))
    model = xmlgp.train(points, settings=SETTINGS | {"epochs": 2})
    variances = model.parameters["label_weights.log_variance"]
    random = np.random.default_rng(3)
    parameters = {name: array for name, array in model.parameters.items() if name != "calibration"}
    parameters["label_weights.log_variance"] = random.normal(0, 1, variances.shape).astype(np.float32)
    return dataclasses.replace(model, parameters=parameters, folder=None), points


def few_labels(points):
    """Return the labels of the first 20 points, but for all beyond the first 40."""
    labels = points.labels[:20].toarray()
    labels[:, 40:] = False
    return sp.csr_array(labels)


def problem_of(points, **chosen):
    settings = MLGPFSettings(inducing="features", **SETTINGS | {"batch_size": 60, "epochs": 2} | chosen)
    return points.features, points.labels, MLGPF.preprocess(points.features, settings, silent), settings


@pytest.mark.parametrize("every", [1, 7])
def test_an_interrupted_run_has_the_same_result(tmp_path, every):
    """In the steps of words, the joint steps, the sweep, the choices and the last sweep."""
    arguments = problem_of(planted(200, widths=(6, 3)), regression_points=500)
    expected = train(*arguments)
    assert "neighbours.weight" in expected.parameters
    assert [entry.get("dense_epoch") for entry in expected.history] == [None, None, 1, 2, 2, 2]
    found, interruptions = train_with_interruptions(train, arguments, tmp_path / "run", itertools.repeat(every))
    assert interruptions >= 14 // every
    assert_same_result(found, expected)
    assert found.held_out == expected.held_out


@pytest.mark.parametrize("weighting", ["none", "idf"])
def test_neighbours_learn_points_labels_and_words(weighting):
    points = planted(300)
    model = xmlgp.train(points, settings=SETTINGS | {"weighting": weighting})
    batch = planted(30, 2)
    words = sp.csr_array(sp.hstack([batch.features.sparse, np.ones((30, 1), np.float32)], format="csr"))
    labels = sp.csr_array(sp.hstack([batch.labels, np.ones((30, 1), bool)], format="csr"))
    learned = xmlgp.learn(model, Dataset(batch.features.with_sparse(words), labels))
    found = learned.parameters
    assert len(found["neighbours.dense"]) == 330
    first = found["neighbours.label_indptr"][300:]
    targets = sp.csr_array((np.ones(first[-1] - first[0]), found["neighbours.labels"][first[0] :], first - first[0]))
    np.testing.assert_array_equal(targets.toarray() > 0, labels.toarray())
    # The words of all points have the weights of today; the held-out points come last of those before.
    order = np.concatenate(held_out.calibration_points(model.settings, points.labels))
    sparse = sp.vstack([sp.hstack([points.features.sparse[order], sp.csr_array((300, 1))]), words], format="csr")
    dense = Dense((np.vstack([points.features.dense.arrays[0][order], batch.features.dense.arrays[0]]),))
    weighted = learned.preprocessed.weigh(Features(sp.csr_array(sparse), dense))
    expected = scaled_features(weighted, found["neighbours.scales"], found["neighbours.lengthscales"])
    stored = sp.csr_array(
        (found["neighbours.values"], found["neighbours.indices"], found["neighbours.indptr"]), shape=(330, 41)
    )
    np.testing.assert_allclose(stored.toarray(), expected.sparse.toarray(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["neighbours.dense"], expected.dense.values(), rtol=2e-3, atol=1e-3)
    dense = batch.features.dense.arrays[0]
    scores = xmlgp.predict(learned, words, dense=dense, k=5).matrix()
    assert evaluate_ranking(scores, labels, ks=(1,))["P@1"] > 90
    assert np.mean(scores.toarray()[:, 12] > 0) > 0.9


@grid(dtype=["float32", "float64"], unknown=[False, True])
def test_a_model_in_a_folder_predicts_and_explains_as_before(tmp_path, dtype, unknown):
    points = planted(300, widths=(6, 2))
    settings = SETTINGS | {"dtype": dtype, "regression_points": 500}
    model = xmlgp.train(unjudged_pairs(points) if unknown else points, tmp_path / "model", settings=settings)
    read = xmlgp.load(tmp_path / "model")
    assert (read.held_out, read.held_out.dense_gains) == (model.held_out, model.held_out.dense_gains)
    later = planted(40, 2, widths=(6, 2)).features
    expected, scores = (
        xmlgp.predict(each, later.sparse, dense=list(later.dense.arrays), k="all").matrix().toarray()
        for each in (model, read)
    )
    np.testing.assert_array_equal(scores, expected)
    (best,) = read.predictor.top(later, 3, "utility")
    contributions = read.predictor.explain(later, best)
    sums = [sum(contributions.shares(pair).values()) for pair in range(len(best.labels))]
    np.testing.assert_allclose(sums, best.scores, rtol=1e-4, atol=1e-3)


def test_a_cluster_of_one_worker_trains_the_same_model(points, model):
    with open_work(workers=1) as work:
        found = xmlgp.train(points, settings=SETTINGS, work=work)
    assert found.parameters.keys() == model.parameters.keys()
    for name, array in model.parameters.items():
        np.testing.assert_array_equal(found.parameters[name], array, err_msg=name)


def test_the_regression_gives_points_without_words_the_frequencies_of_labels(points):
    """It would extrapolate there, although dense features say more."""
    # Without held-out points, regressions always join.
    settings = SETTINGS | {"regression_points": 1000, "calibration": False}
    predictor = xmlgp.train(points, settings=settings).predictor
    later = planted(5, 3).features
    words = later.sparse.toarray()
    words[2] = 0
    regressed = predictor.prepare(Features(sp.csr_array(words), later.dense), "probability", False).regressed
    assert not regressed[2].any()
    assert regressed[[0, 1, 3, 4]].any(axis=1).all()
