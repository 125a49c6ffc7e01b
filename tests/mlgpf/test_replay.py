"""The memory of earlier points: what is drawn and how much each point stands for, and what a model keeps of it."""

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.problems import small_dataset, small_features
from xmlgp.data.dataset import Dataset, no_points
from xmlgp.data.features import Features
from xmlgp.mlgpf.replay import NOT_LISTED, Ranked, ReplayBuffer, bounded, scarcity
from xmlgp.mlgpf.settings import MLGPFSettings

D, K = 25, 7
SMALL = {
    "inducing": "features", "label_weights": True, "factors": 3, "epochs": 2, "batch_size": 16, "regression_points": 0,
}  # fmt: skip


def skewed_labels(N, seed=0):
    """Return Y: labels 0 to 3 are frequent, 4 to 6 rarer and rarer, and some points have none."""
    shares = [0.5, 0.3, 0.2, 0.1, 0.02, 0.01, 0.005]
    return sp.csr_array(np.random.default_rng(seed).random((N, K)) < shares)


def memory(M=300, weights=None, seed=0):
    """Return a memory; the first number on the shortlist of each point is the number of the point."""
    found = ReplayBuffer.of_points(Features(small_features(M, D, seed=seed)), skewed_labels(M, seed))
    shortlist = np.repeat(np.arange(M, dtype=np.int32)[:, None], 3, axis=1)
    return found._replace(weights=found.weights if weights is None else weights, shortlist=shortlist)


def counts_of(labels):
    return np.array(labels.sum(axis=0)).ravel()


def scarce(points):
    return scarcity(points.labels, np.append(counts_of(points.labels), points.size))


def random_weights(M):
    return np.random.default_rng(1).choice(np.float32([1, 1.5, 4, 20]), M)


def draws(draw, count=1500):
    return [draw(np.random.default_rng(seed)) for seed in range(count)]


def assert_sums_are_kept(points, found):
    """Check that the mean over draws of each weighted sum is that of all points, within four standard errors."""
    values = np.column_stack([np.ones(points.size), points.labels.toarray(), points.features.sparse.toarray()[:, :3]])
    expected = points.weights.astype(float) @ values
    sums = np.array([one.weights.astype(float) @ values[one.shortlist[:, 0]] for one in found])
    error = sums.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(sums.mean(axis=0) - expected) <= 4 * error + 1e-6 * expected).all()


def test_scarcity_is_that_of_the_rarest_label():
    labels = sp.csr_array(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]], bool))
    # A label that no point has counts as if one had it.
    np.testing.assert_allclose(scarcity(labels, np.array([8, 40, 0, 100])), [1 / 8, 1 / 40, 1 / 100, 1])
    np.testing.assert_allclose(scarcity(labels[2:3], np.array([8, 40, 0, 100])), [1 / 100])
    assert len(scarcity(labels[:0], np.array([8, 40, 0, 100]))) == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [20, 150])
def test_thinned_points_keep_the_expectation_of_sums(weighted, size):
    points = memory(weights=random_weights(300) if weighted else None)
    assert_sums_are_kept(points, draws(lambda random: points.thinned(scarce(points), size, random)))


@pytest.mark.parametrize("weighted", [False, True])
def test_thinned_points_are_as_many_as_wanted_and_stay_in_order_with_their_rows(weighted):
    points = memory(weights=random_weights(300) if weighted else None)
    for size in (1, 20, 150, 299):
        for found in draws(lambda random, size=size: points.thinned(scarce(points), size, random), 50):
            assert abs(found.size - size) <= 1
            kept = found.shortlist[:, 0]
            assert (np.diff(kept) > 0).all()
            np.testing.assert_array_equal(found.features.sparse.toarray(), points.features.sparse[kept].toarray())
            np.testing.assert_array_equal(found.labels.toarray(), points.labels[kept].toarray())
            assert found.weights.dtype == np.float32
            assert (found.weights >= points.weights[kept]).all()
    assert points.thinned(scarce(points), 300, np.random.default_rng(0)) is points


def test_points_with_rare_labels_stay_and_stand_for_themselves():
    points = memory(3000)
    rare = points.labels.toarray()[:, 4:].any(axis=1)
    found = points.thinned(scarce(points), 600, np.random.default_rng(0))
    kept = found.shortlist[:, 0]
    assert set(np.flatnonzero(rare)) <= set(kept)
    np.testing.assert_array_equal(found.weights[rare[kept]], 1)
    # Points without labels are the first to go.
    without = ~points.labels.toarray().any(axis=1)
    assert (without[kept].sum() / without.sum()) < (600 / 3000) / 2
    assert found.weights[without[kept]].min() > found.weights[~without[kept]].max()


def test_points_that_stand_for_many_are_more_likely_to_stay():
    weights = np.where(np.arange(300) < 150, 1, 20).astype(np.float32)
    points = memory(weights=weights)
    same = np.full(300, 1 / 300)
    kept = np.concatenate([one.shortlist[:, 0] for one in draws(lambda r: points.thinned(same, 60, r), 200)])
    shares = np.bincount(kept // 150) / (150 * 200)
    assert shares[1] == pytest.approx(20 * shares[0], rel=0.15)
    # Both then stand for equally many.
    found = points.thinned(same, 60, np.random.default_rng(0))
    np.testing.assert_allclose(found.weights, found.weights[0], rtol=1e-6)


def test_a_bounded_memory_that_grows_batch_by_batch_stands_for_all_points():
    settings, sums, n = MLGPFSettings(replay=100), [], 50
    batches = 24
    for seed in range(40):
        kept, counts, seeded = None, np.zeros(K, int), MLGPFSettings(replay=100, seed=seed)
        for number in range(batches):
            # All seeds have the same points.
            features, labels = Features(small_features(n, D, seed=number)), skewed_labels(n, number)
            counts += counts_of(labels)
            kept = ReplayBuffer.of_points(features, labels) if kept is None else kept.extended(features, labels)
            kept = bounded(kept, counts, n * (number + 1), seeded)
            assert kept.size <= settings.replay + 1
            assert kept.weights.min() >= 1
        sums.append(np.append(kept.weights @ kept.labels, kept.weights.sum()))
    # Within four standard errors of Σ w and of each n_k.
    errors = np.std(sums, axis=0) / np.sqrt(len(sums))
    expected = np.append(counts, n * batches)
    assert (np.abs(np.mean(sums, axis=0) - expected) <= 4 * errors + 1e-3 * expected).all()
    np.testing.assert_allclose(np.array(sums)[:, -1], n * batches, rtol=0.25)


def test_bounded_draws_depend_on_the_seed_and_the_number_of_points():
    points = memory()
    counts = counts_of(points.labels)

    def kept(N=300, **chosen):
        return bounded(points, counts, N, MLGPFSettings(replay=50, **chosen)).shortlist[:, 0].tolist()

    assert kept() == kept() != kept(seed=1)
    assert kept() != kept(N=301)


def test_new_points_follow_with_their_features_and_labels():
    points = memory(30, weights=random_weights(30))
    new = small_dataset(N=5, D=D + 2, K=K + 3)
    found = points.extended(new.features, new.labels)
    assert (found.size, found.features.sparse.shape, found.labels.shape) == (35, (35, D + 2), (35, K + 3))
    np.testing.assert_array_equal(found.features.sparse[:30, :D].toarray(), points.features.sparse.toarray())
    np.testing.assert_array_equal(found.labels[:30, :K].toarray(), points.labels.toarray())
    assert not found.features.sparse[:30, D:].nnz
    assert not found.labels[:30, K:].nnz
    np.testing.assert_array_equal(found.features[30:].sparse.toarray(), new.features.sparse.toarray())
    np.testing.assert_array_equal(found.labels[30:].toarray(), new.labels.toarray())
    np.testing.assert_array_equal(found.weights, [*points.weights, 1, 1, 1, 1, 1])
    assert found.weights.dtype == np.float32
    # No sweep has listed the new points.
    np.testing.assert_array_equal(found.shortlist[:30], points.shortlist)
    assert (found.shortlist[30:] == NOT_LISTED).all()
    listed = np.zeros((35, 4), np.int32)
    assert points.extended(new.features, new.labels, listed).shortlist is listed
    assert points._replace(shortlist=None).extended(new.features, new.labels).shortlist is None


@pytest.mark.parametrize("listed", [True, False])
def test_parameters_are_read_again_as_they_were(listed):
    points = memory(30, weights=random_weights(30))
    points = points if listed else points._replace(shortlist=None)
    parameters = points.parameters()
    assert all(name.startswith("replay.") for name in parameters)
    found = ReplayBuffer.of({"bias": np.zeros(K)} | parameters, D + 1, K + 2)
    assert (found.features.sparse.shape, found.labels.shape) == ((30, D + 1), (30, K + 2))
    np.testing.assert_array_equal(found.features.sparse[:, :D].toarray(), points.features.sparse.toarray())
    np.testing.assert_array_equal(found.labels[:, :K].toarray(), points.labels.toarray())
    np.testing.assert_array_equal(found.weights, points.weights)
    np.testing.assert_array_equal(found.shortlist, points.shortlist)
    assert ReplayBuffer.of({"bias": np.zeros(K)}, D, K) is None


@pytest.mark.parametrize(("share", "most"), [(0.25, 80), (0.25, 1000), (0.9, 40)])
def test_held_out_points_of_a_batch_replace_their_share_of_the_earlier_ones(share, most):
    # The first probability of each point is its number.
    numbers = np.arange(150, dtype=np.float32)
    points = Ranked(np.column_stack([numbers, numbers, numbers]), np.ones((150, 3), np.uint8))
    old, new = (Ranked(*(array[part] for array in points)) for part in (slice(0, 100), slice(100, 150)))
    new = Ranked(*(np.hstack([array, array[:, :1]]) for array in new))
    kept = np.zeros(150)
    for random in map(np.random.default_rng, range(400)):
        found = old.joined(new, share, most, random)
        assert found.probabilities.shape == found.correct.shape == (len(found.correct), 3)
        assert found.correct.dtype == np.uint8
        assert len(found.correct) <= min(150, most) + 1
        kept[found.probabilities[:, 0].astype(int)] += 1 / 400
    size = min(150, most)
    expected = np.minimum(1, np.repeat([(1 - share) * size / 100, share * size / 50], [100, 50]))
    np.testing.assert_allclose(kept, expected, atol=0.1)
    # Without held-out points in the batch, or before.
    none = Ranked(*(array[:0] for array in points))
    assert len(none.joined(old, 1.0, 1000, np.random.default_rng(0)).correct) == 100
    assert len(old.joined(none, share, 1000, np.random.default_rng(0)).correct) == 100


#: The points that a model is trained on, and three batches, with more features and labels than these.
KNOWN, BATCHES = small_dataset(D=20, K=5), [small_dataset(N=20, seed=seed) for seed in (1, 2, 3)]


def trained(path=None, **chosen):
    return xmlgp.train(KNOWN, path, settings=MLGPFSettings(**SMALL | chosen))


def memory_of(model):
    return ReplayBuffer.of(model.parameters, model.data["D"], model.data["K"])


@pytest.mark.parametrize("chosen", [{}, {"label_weights": False}, {"dtype": "float64"}, {"weighting": "unit"}], ids=str)
def test_a_model_folder_has_the_points_as_read(tmp_path, chosen):
    trained(tmp_path, **chosen)
    found = memory_of(xmlgp.load(tmp_path))
    np.testing.assert_array_equal(found.features.sparse.toarray(), KNOWN.features.sparse.toarray())
    np.testing.assert_array_equal(found.labels.toarray(), KNOWN.labels.toarray())
    np.testing.assert_array_equal(found.weights, 1)
    if "label_weights" in chosen:
        assert found.shortlist is None
        return
    # All negatives are on the lists of the last sweep, since there are few labels.
    for positives, row in zip(KNOWN.labels.toarray(), found.shortlist, strict=True):
        assert sorted(row[row >= 0]) == np.flatnonzero(~positives).tolist()


def test_a_model_keeps_at_most_as_many_points_as_the_settings_say(tmp_path):
    model = trained(tmp_path, replay=25)
    assert memory_of(model).size == 25
    for number, batch in enumerate(BATCHES, 1):
        model = xmlgp.learn(tmp_path, batch)
        found = memory_of(xmlgp.load(tmp_path))
        assert found.size == 25
        assert found.weights.min() >= 1
        assert found.weights.sum() == pytest.approx(40 + 20 * number, rel=0.3)
    # Points of each batch are among them, rows of the data.
    rows = {tuple(row) for batch in BATCHES for row in batch.features.sparse.toarray()}
    rows |= {(*row, 0, 0, 0, 0, 0) for row in KNOWN.features.sparse.toarray()}
    assert {tuple(row) for row in found.features.sparse.toarray()} <= rows
    for batch in BATCHES:
        assert {tuple(row) for row in batch.features.sparse.toarray()} & {
            tuple(row) for row in found.features.sparse.toarray()
        }


def test_points_without_labels_and_new_labels_without_points_are_remembered(tmp_path):
    trained(tmp_path)
    batch = BATCHES[0]
    unlabelled = Dataset(batch.features, sp.csr_array(batch.labels.shape, dtype=bool))
    found = memory_of(xmlgp.learn(tmp_path, unlabelled))
    np.testing.assert_array_equal(found.features[40:].sparse.toarray(), batch.features.sparse.toarray())
    assert not found.labels[40:].nnz
    assert (found.shortlist[40:] == NOT_LISTED).all()
    found = memory_of(xmlgp.learn(tmp_path, no_points(25, 9)))
    assert (found.size, found.labels.shape) == (60, (60, 9))
    # The next batch lists all of them.
    batch = BATCHES[1]
    found = memory_of(xmlgp.learn(tmp_path, Dataset(batch.features, with_columns(batch.labels, 9))))
    assert (found.shortlist[:, 0] != NOT_LISTED).all()


def with_columns(labels, K):
    return sp.csr_array((labels.data, labels.indices, labels.indptr), shape=(labels.shape[0], K))


def test_without_a_memory_no_row_is_kept(tmp_path):
    for model in (trained(tmp_path, replay=0), xmlgp.learn(tmp_path, BATCHES[0])):
        assert not [name for name in model.parameters if name.startswith("replay.")]
    assert not list(tmp_path.rglob("*replay*"))
    # Nor by inducing inputs, which make no use of it.
    model = xmlgp.train(KNOWN, settings={"inducing": "free", "inducing_count": 5, "factors": 3, "epochs": 1})
    assert not [name for name in model.parameters if name.startswith("replay.")]
