"""Learning on with a memory: what a batch replays, what no longer matters, resuming, and what the memory is worth."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

import xmlgp
from tests.held_out import calibrated
from tests.mlgpf.test_learning import BATCH, K_KNOWN, N_KNOWN, OTHERS, D, K, after, few_steps, model, problem
from tests.training.interrupting import assert_same_result, train_with_interruptions
from xmlgp.data.dataset import Dataset, stack
from xmlgp.data.features import Features
from xmlgp.label_weights.posterior import WeightsPrior
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf import incremental, learning_problem, learning_steps, replay_selection, sweep
from xmlgp.mlgpf.growth import grown_parameters
from xmlgp.mlgpf.held_out import Recalibration
from xmlgp.mlgpf.learned_sweep import _prior_without
from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.method import Problem
from xmlgp.mlgpf.replay import NOT_LISTED, Ranked, ReplayBuffer
from xmlgp.prediction.calibration import fit_calibration
from xmlgp.runs.learn import learn_points
from xmlgp.runtime.threads import single_thread
from xmlgp.training.trained import statistics_of

__all__ = ["few_steps"]


def test_the_prior_has_what_the_points_that_are_not_replayed_added():
    random = np.random.default_rng(0)
    indptr, shares = np.array([0, 3, 5, 8]), np.array([0, 0.25, 1], np.float32)
    before, training = random.uniform(2, 9, 8), random.uniform(0.1, 1, 8)
    mean = random.normal(size=8)
    found = _prior_without(WeightsPrior(mean, before), WeightsPrior(np.zeros(8), training), indptr, shares)
    # Nothing is replayed: the posterior. Everything: the prior of training.
    np.testing.assert_allclose(found.precision[:3], before[:3])
    np.testing.assert_allclose(found.mean[:3], mean[:3])
    np.testing.assert_allclose(found.precision[5:], training[5:])
    np.testing.assert_array_equal(found.mean[5:], 0)
    # Natural parameters of the first part of the points, in between.
    between = slice(3, 5)
    np.testing.assert_allclose(found.precision[between], 0.25 * training[between] + 0.75 * before[between])
    np.testing.assert_allclose((found.precision * found.mean)[between], (0.75 * before * mean)[between])
    # Rounding can make a posterior wider than its prior, and the precision stays positive.
    wide = _prior_without(WeightsPrior(mean, training / 2), WeightsPrior(mean, training), indptr, shares)
    np.testing.assert_allclose(wide.precision, training)


def test_a_batch_replays_what_matters_to_its_labels(monkeypatch):
    monkeypatch.setattr(replay_selection, "REPLAYED_LEAST", 5)
    monkeypatch.setattr(replay_selection, "REPLAYED_EACH", 20)
    monkeypatch.setattr(replay_selection, "SUGGESTED", 1)
    earlier = model(inducing="features")
    memory = ReplayBuffer.of(earlier.parameters, D, K)
    # Each point lists the next label alone, if it lacks that.
    memory = memory._replace(shortlist=np.full_like(memory.shortlist, NOT_LISTED))
    following = np.arange(N_KNOWN) % K
    lacking = ~memory.labels.toarray()[np.arange(N_KNOWN), following]
    memory.shortlist[lacking, 0] = following[lacking]
    grown = grown_parameters(earlier, statistics_of(BATCH.features, BATCH.labels), BATCH.N)

    def replayed(count):
        labels, preprocessed = BATCH.labels[:count], problem(earlier)[-1]
        coordinates = preprocessed.inputs(BATCH.features[:count], earlier.settings.dtype)
        part = Problem(earlier.settings, BATCH.features[:count], labels, preprocessed, coordinates)
        return labels, replay_selection.select_replayed(memory, grown, part, earlier.N)

    labels, found = replayed(1)
    assert not found.all
    # The labels of the point, and the first one that the model would add.
    assert set(found.swept) == {*labels.indices, found.shortlist[0, 0]}
    assert found.shortlist[0, 0] not in labels.indices
    wanted = memory.labels.toarray()[:, found.swept].any(axis=1) | (lacking & np.isin(following, found.swept))
    having = found.points.labels.toarray()[:, found.swept].any(axis=1) | np.isin(
        found.points.shortlist, found.swept
    ).any(axis=1)
    assert having.sum() == wanted.sum() < N_KNOWN
    # And some others, drawn from all.
    assert (len(found.drawn), found.population) == (5, N_KNOWN + 1)
    assert wanted.sum() <= found.points.size <= min(wanted.sum() + 5, N_KNOWN)
    expected = problem(earlier)[-1].weigh(found.points.features)
    np.testing.assert_array_equal(found.features.sparse.toarray(), expected.sparse.toarray())
    # All of the memory, for a batch that is large beside it.
    labels, found = replayed(3)
    assert found.all
    assert found.points is memory
    np.testing.assert_array_equal(found.swept, np.arange(K))


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("share", [0, 0.5])
def test_points_without_shortlists_and_a_share_of_the_others_are_listed(share, monkeypatch):
    listed, original = [], sweep.shortlist_negatives

    def recorded(utilities, latent, features, labels, *rest):
        listed.append(labels.shape)
        return original(utilities, latent, features, labels, *rest)

    earlier = model(inducing="features")
    monkeypatch.setattr(sweep, "shortlist_negatives", recorded)
    monkeypatch.setattr(incremental, "LISTED_AGAIN", share)
    unlabelled = Dataset(OTHERS.features[:30], sp.csr_array((30, K), dtype=bool))
    found = after(after(earlier, unlabelled))
    # The points without labels, which nothing was learned from, and those of the batch.
    (count, labels), least = listed[0], 30 + BATCH.N
    assert (len(listed), labels) == (1, K)
    assert count == least if share == 0 else least < count < least + earlier.N
    shortlist, known = (ReplayBuffer.of(one.parameters, D, one.K).shortlist for one in (found, earlier))
    if share == 0:
        np.testing.assert_array_equal(shortlist[:N_KNOWN, :K_KNOWN], known)
    assert (shortlist[N_KNOWN:, 0] != NOT_LISTED).all()


@pytest.mark.usefixtures("few_steps")
def test_where_all_points_are_replayed_the_weights_of_before_do_not_matter(monkeypatch):
    # T, Φ and b stay, and each sweep ends at its optimum.
    for name in ("RATE_SHARE", "REFINEMENT_RATE"):
        monkeypatch.setattr(learning_steps, name, 0.0)
    for name in ("ROUNDS", "ROUNDS_OF_ALL"):
        monkeypatch.setattr(incremental, name, 200)
    monkeypatch.setattr(sweep, "CG_STEPS", 30)

    def change(replay):
        """Return how much label weights differ after a batch, if they have other means and variances before."""
        earlier, random = model(inducing="features", dtype="float64", replay=replay), np.random.default_rng(0)
        others = dict(earlier.parameters)
        for name in ("label_weights.mean", "label_weights.log_variance"):
            others[name] = others[name] + random.normal(0, 0.5, others[name].shape)
        arguments = problem(earlier)[1:]
        one, other = (learn(given, *arguments).parameters for given in (earlier, replace(earlier, parameters=others)))
        for name in ("latent_weights.mean", "loadings", "bias"):
            np.testing.assert_allclose(one[name], other[name], atol=1e-9)
        return np.abs(one["label_weights.mean"] - other["label_weights.mean"]).max()

    assert change(replay=200_000) < 1e-4
    assert change(replay=0) > 0.1


def test_a_model_of_a_version_without_a_memory_learns_on_without_one():
    one = model(inducing="features", regression_points=1000)
    stripped = {name: value for name, value in one.parameters.items() if not name.startswith("replay.")}
    other = model(inducing="features", regression_points=1000, replay=0)
    assert stripped.keys() == other.parameters.keys() != one.parameters.keys()
    found = learn(replace(one, parameters=stripped), *problem(one)[1:])
    assert_same_result(found, learn(other, *problem(other)[1:]))
    assert not [name for name in found.parameters if name.startswith("replay.")]


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("chosen", [{}, {"optimiser": "adam"}, {"label_weights": False}], ids=str)
def test_every_stage_is_resumed_with_the_same_result(tmp_path, chosen):
    # Steps over the batch, steps over all points, the sweep, the calibration, and the sweep that adds held-out points.
    with calibrated(0.3):
        earlier = model(inducing="features", seed=5, **chosen)
        assert Ranked.of(earlier.parameters)
        expected = learn(*problem(earlier))
        again, interruptions = train_with_interruptions(
            lambda *arguments, checkpoints: learn(*arguments, checkpoints=checkpoints),
            problem(earlier),
            tmp_path / "checkpoint",
            [1] * 200,
        )
    assert_same_result(again, expected)
    assert (expected.parameters["calibration"] != earlier.parameters["calibration"]).any()
    assert interruptions > 10
    assert len(expected.history) == 4 + ("label_weights" not in chosen)


@pytest.mark.usefixtures("few_steps")
def test_the_calibration_goes_on_with_points_that_nothing_before_it_has_seen(monkeypatch):
    seen, held, original, hold_out = [], [], Recalibration.step, learning_problem.hold_out

    def recorded(self, *place):
        with self._current_parameters() as parameters:
            seen.append({name: value.copy() for name, value in parameters.items()})
        return original(self, *place)

    def held_out(N, *arguments):
        found = hold_out(N, *arguments)
        if N == BATCH.N:
            held.append(found[1])
        return found

    monkeypatch.setattr(Recalibration, "step", recorded)
    monkeypatch.setattr(learning_problem, "hold_out", held_out)
    with calibrated(0.3):
        earlier = model(inducing="features", seed=5)
    found = after(earlier)
    # Each held-out point gets the labels of another, so no label is more frequent.
    rows = np.arange(BATCH.N)
    rows[held[0]] = np.roll(held[0], 1)
    assert len(held[0]) > 3
    other = after(earlier, Dataset(BATCH.features, BATCH.labels[rows]))
    for name in ("latent_weights.mean", "latent_weights.log_variance", "loadings", "bias"):
        np.testing.assert_array_equal(seen[0][name], seen[1][name], err_msg=name)
    assert not any("calibration" in parameters for parameters in seen)
    # In the end their labels are learned, and the calibration is fitted to them and to earlier ones.
    means = [one.parameters["label_weights.mean"] for one in (found, other)]
    assert not np.array_equal(*means)
    ranked = Ranked.of(found.parameters)
    assert len(held[0]) < len(ranked.correct) <= len(held[0]) + len(Ranked.of(earlier.parameters).correct)
    assert not np.array_equal(ranked.correct, Ranked.of(other.parameters).correct)
    np.testing.assert_array_equal(found.parameters["calibration"], fit_calibration(*ranked).coefficients)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("label_weights", [True, False])
def test_the_calibration_stays_where_all_held_out_points_have_new_labels_only(label_weights):
    with calibrated(0.3):
        earlier = model(inducing="features", seed=5, label_weights=label_weights)
    # One of two points is held out, and nothing is known of its label.
    found = after(earlier, Dataset(OTHERS.features[:2], sp.csr_array(np.eye(K, dtype=bool)[K_KNOWN:])))
    before, ranked = Ranked.of(earlier.parameters), Ranked.of(found.parameters)
    np.testing.assert_array_equal(ranked.correct, before.correct)
    np.testing.assert_array_equal(ranked.probabilities, before.probabilities)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kind", ["all", "some"])
def test_the_result_depends_on_the_seed_alone(monkeypatch, kind):
    if kind == "some":
        monkeypatch.setattr(replay_selection, "REPLAYED_LEAST", 25)
        monkeypatch.setattr(replay_selection, "REPLAYED_EACH", 0)
    earlier = model(inducing="features")
    expected = learn(*problem(earlier))
    assert_same_result(learn(*problem(earlier)), expected)
    with single_thread():
        found = learn(*problem(earlier)).parameters
    # But for the order of sums.
    for name, value in expected.parameters.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)
    other = learn(*problem(replace(earlier, settings=replace(earlier.settings, seed=1)))).parameters
    for name in ("loadings", "label_weights.mean"):
        assert np.abs(other[name] - expected.parameters[name]).max() > 1e-3, name


#: Documents of topics, of which the first 20 are known and the last 10 are new.
TOPICS, WORDS = 30, 150


def documents(count, first, last, seed):
    """Return points with one to three of the labels from `first` to `last` − 1, words of these, and other words."""
    own = np.array([np.random.default_rng(k).choice(WORDS, 6, replace=False) for k in range(TOPICS)])
    random = np.random.default_rng([first, seed])
    features, labels = np.zeros((count, WORDS), np.float32), np.zeros((count, TOPICS), bool)
    for words, present in zip(features, labels, strict=True):
        chosen = random.choice(np.arange(first, last), random.integers(1, 4), replace=False)
        present[chosen] = True
        for label in chosen:
            words[random.choice(own[label], 3)] += 1
        np.add.at(words, random.integers(0, WORDS, 6), 1)
    return Dataset(Features(sp.csr_array(features)), sp.csr_array(labels))


def joined(*parts):
    return stack(parts)


def only(dataset, label):
    """Return 60 points with a label, and no other label of theirs."""
    points = dataset.rows(np.flatnonzero(dataset.labels.toarray()[:, label])[:60])
    assert points.N == 60
    return Dataset(points.features, sp.csr_array(np.repeat([np.arange(TOPICS) == label], 60, axis=0)))


KNOWN = documents(500, 0, 20, seed=1)
TEST = joined(documents(300, 0, 20, seed=2), documents(300, 10, 30, seed=2))


@functools.cache
def trained(*batches):
    """Return a model that is trained on the known documents and on batches, anew."""
    settings = {
        "inducing": "features", "label_weights": True, "factors": 8, "regression_points": 0, "epochs": 20,
        "batch_size": 50,
    }  # fmt: skip
    return xmlgp.train(joined(KNOWN, *batches), settings=settings)


def learned(*batches, remembers):
    """Return the model after some batches; otherwise one that lacks the memory of the known documents."""
    found = trained()
    if not remembers:
        kept = {name: value for name, value in found.parameters.items() if not name.startswith("replay.")}
        found = replace(found, parameters=kept)
    for batch in batches:
        found = learn_points(found, batch)
    return found


def probabilities(found, points=TEST):
    (scores,) = found.predictor.top(points.features, TOPICS, "probability")
    return scores.matrix


def test_a_model_that_remembers_is_close_to_training_anew_where_points_change():
    batches = [documents(120, 10, 30, seed) for seed in (3, 4)]
    anew, with_memory, without = (
        evaluate_ranking(probabilities(found), TEST.labels, ks=(3,))["P@3"]
        for found in (trained(*batches), learned(*batches, remembers=True), learned(*batches, remembers=False))
    )
    assert without < anew - 3
    assert anew - with_memory < 0.75 * (anew - without)


@pytest.mark.parametrize("label", [3, 25])
def test_a_batch_of_one_label_hardly_raises_it_elsewhere(label):
    # One label is known, the other is new.
    batch = only(documents(1000, *((0, 20) if label < 20 else (10, 30)), seed=5), label)
    rows = ~TEST.labels.toarray()[:, label]

    def mean(found):
        return probabilities(found).toarray()[rows, label].mean()

    before, with_memory, without = (
        mean(found) for found in (trained(), learned(batch, remembers=True), learned(batch, remembers=False))
    )
    frequency = 60 / 560
    assert without - before > 0.05
    assert with_memory - before < 0.6 * (without - before)
    assert with_memory < frequency


def test_new_labels_are_ranked_as_well_as_without_a_memory():
    batch = documents(240, 10, 30, seed=6)

    def area(found):
        scores, truth = probabilities(found).toarray(), TEST.labels.toarray()
        return np.mean([roc_auc_score(truth[:, k], scores[:, k]) for k in range(20, TOPICS)])

    before, with_memory, without = (
        area(found) for found in (trained(), learned(batch, remembers=True), learned(batch, remembers=False))
    )
    # Nothing is known of them.
    assert before < 0.6
    assert with_memory > max(0.85, without - 0.02)
