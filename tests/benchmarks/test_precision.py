"""Measures per point, their paired differences, and the cache of runs."""

import json

import numpy as np
import precision
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from precision import DEFAULT, MEASURES, VARIANTS, Runs, Variant, by_point, choose, compare, make_folds
from scipy.stats import ttest_rel
from sklearn.metrics import ndcg_score

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import XmlgpError
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.models import settings_from

QUICK = ["--set", "epochs=1", "--set", "inducing_count=5", "--set", "factors=3"]
TWO = ["--only", "weighting=unit", "--only", "weighting=none"]


@pytest.fixture
def data(tmp_path):
    """A folder without test points, which this benchmark must not use."""
    (tmp_path / "small").mkdir()
    write_dataset(tmp_path / "small" / "train.txt", small_dataset(80))
    return tmp_path / "small"


def run(data, *arguments):
    return CliRunner().invoke(precision.main, ["--data", str(data), *QUICK, *map(str, arguments)])


def rows(output):
    """Return the cells of the table by the name of the variant."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if line.startswith("|")]
    return {name: rest for _, name, *rest in cells[2:]}


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


def test_finished_runs_are_not_repeated(data, tmp_path, monkeypatch):
    cached = ["--cache", tmp_path / "cache.json"]
    fit, trained = precision.harness.fit, []

    def counted(dataset, settings):
        trained.append((settings.weighting, settings.seed))
        return fit(dataset, settings)

    monkeypatch.setattr(precision.harness, "warm_up", lambda settings: None)
    monkeypatch.setattr(precision.harness, "fit", counted)
    first = run(data, "--only", "weighting=unit", *cached)
    assert trained == [("root-idf", 0), ("root-idf", 1), ("unit", 0), ("unit", 1)]
    trained.clear()
    again = run(data, "--only", "weighting=unit", *cached)
    assert (trained, again.stdout) == ([], first.stdout)
    more = run(data, *TWO, "--seeds", 3, *cached)
    assert more.exit_code == 0, more.output
    assert trained == [("root-idf", 2), ("unit", 2), ("none", 0), ("none", 1), ("none", 2)]
    trained.clear()
    # Other settings, another split and other data are other runs.
    run(data, "--only", "weighting=unit", *cached, "--seeds", 1, "--set", "epochs=2")
    run(data, "--only", "weighting=unit", *cached, "--seeds", 1, "--folds", 5)
    write_dataset(data / "train.txt", small_dataset(80, seed=1))
    run(data, "--only", "weighting=unit", *cached, "--seeds", 1)
    assert trained == [("root-idf", 0), ("unit", 0)] * 3


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


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--only", "nothing*"], 2, "nothing* matches no variant; choose from default, "),
        (["--fold-count", "5"], 2, "--fold-count 5 is more than --folds 4"),
        (["--set", "colour=red"], 1, "colour is not a setting"),
        (["--set", "epochs=0"], 1, "epochs is 0, but must be"),
        (["--cache", "{data}/train.txt"], 1, "train.txt: not a cache of runs"),
        (["--data", "{data}/.."], 1, "this folder contains no train.txt"),
    ],
)
def test_errors_are_one_line(data, arguments, status, message):
    result = run(data, *(argument.format(data=data) for argument in arguments), "--only", "default", "--seeds", 1)
    assert result.exit_code == status
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_points_without_labels_cannot_be_held_out():
    dataset = small_dataset(4)
    with pytest.raises(XmlgpError, match="no held-out point has a label, of 4 points in 50 folds"):
        make_folds(dataset, 50, 50)
