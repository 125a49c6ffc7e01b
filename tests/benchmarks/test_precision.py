"""Measures per point, their paired differences, and the cache of runs."""

import json

import numpy as np
import precision
import pytest
import scipy.sparse as sp
from precision import DEFAULT, MEASURES, VARIANTS, Runs, Variant, by_point, choose, compare, make_folds
from scipy.stats import ttest_rel
from sklearn.metrics import ndcg_score

from tests.problems import small_dataset
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.models import settings_from


@pytest.mark.parametrize("K", [3, 30])
def test_means_over_points_are_the_ranking_measures(K):
    random = np.random.default_rng(0)
    # Some points without labels, with many labels more than five.
    scores, labels = random.random((50, K)), sp.csr_array(random.random((50, K)) < 0.3 * random.random((50, 1)))
    weights = 1 / propensities(labels)
    best = np.argsort(-scores, axis=1)[:, :5]
    found = by_point(best, labels, weights)
    labelled = labels.sum(axis=1) > 0
    assert 0 < labelled.sum() < 50
    wanted = evaluate_ranking(sp.csr_array(scores), labels, (1, 3, 5), 1 / weights)
    assert dict(zip(MEASURES, found.mean(axis=0), strict=True)) == pytest.approx({n: wanted[n] for n in MEASURES})
    ndcg = [ndcg_score([t], [s], k=5) for t, s in zip(labels.toarray()[labelled], scores[labelled], strict=True)]
    assert found[:, MEASURES.index("nDCG@5")] == pytest.approx(100 * np.array(ndcg))


def test_standard_errors_agree_with_a_paired_t_test():
    runs, baseline = np.random.default_rng(0).random((2, 3, 40, len(MEASURES)))
    compared = compare(runs, baseline)
    # Seeds have the same points, so they are averaged first.
    statistic = ttest_rel(runs.mean(axis=0), baseline.mean(axis=0)).statistic
    assert np.divide(compared["difference"], compared["error"]) == pytest.approx(statistic)
    of_seeds = runs.mean(axis=1)
    assert compared["mean"] == pytest.approx(of_seeds.mean(axis=0))
    assert compared["deviation"] == pytest.approx(of_seeds.std(axis=0, ddof=1))


def test_folds_partition_the_points():
    dataset = small_dataset(83)
    folds = make_folds(dataset, 4, 4)
    assert sorted(fold.held_out.N for fold in folds) == [20, 21, 21, 21]
    for fold in folds:
        together = sp.vstack([fold.train.features, fold.held_out.features]).toarray()
        assert np.array_equal(np.sort(together, axis=0), np.sort(dataset.features.toarray(), axis=0))
        assert fold.weights == pytest.approx(1 / propensities(fold.train.labels))
    everything = sp.vstack([fold.held_out.features for fold in folds]).toarray()
    assert np.array_equal(np.sort(everything, axis=0), np.sort(dataset.features.toarray(), axis=0))
    assert len({json.dumps(fold.split) for fold in folds}) == 4


def test_every_variant_is_valid_and_has_a_unique_name():
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    changed = {variant.name for variant in VARIANTS if settings_from(variant.settings, "variant") != MLGPFSettings()}
    assert changed == {variant.name for variant in VARIANTS} - {DEFAULT.name}


def test_variants_are_sorted_by_group(monkeypatch):
    late = Variant("late", VARIANTS[1].group, {"epochs": 7})
    monkeypatch.setattr(precision, "VARIANTS", [*VARIANTS, late])
    chosen = choose([VARIANTS[1].name, "epochs=*", "late"])
    assert chosen[:3] == [DEFAULT, VARIANTS[1], late]
    assert {variant.name for variant in chosen[3:]} == {"epochs=10", "epochs=20", "epochs=80"}


def test_runs_without_a_newer_setting_count_as_its_default(tmp_path):
    runs = Runs(tmp_path / "cache.json")
    runs.add({"fold": 0}, MLGPFSettings(), {"seconds": 1.0})
    text = json.loads((tmp_path / "cache.json").read_text())
    del text["runs"][0]["settings"]["factors"]
    (tmp_path / "cache.json").write_text(json.dumps(text))
    runs = Runs(tmp_path / "cache.json")
    assert runs.find({"fold": 0}, MLGPFSettings())["seconds"] == 1.0
    assert runs.find({"fold": 0}, MLGPFSettings(factors=3)) is None
    assert runs.find({"fold": 1}, MLGPFSettings()) is None
