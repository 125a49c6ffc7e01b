"""Every benchmark runs on small data and prints a table; the measures that only benchmarks have are right."""

import importlib
import json

import harness
import learning
import numpy as np
import peers
import probabilities
import pytest
import scaling
import scipy.sparse as sp
from click.testing import CliRunner
from packages import Example, collect, main, read_index
from precision import MEASURES, by_point, compare
from scipy.stats import ttest_rel
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ndcg_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize

from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.metrics.propensity import propensities
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.prediction.scores_file import read_scores

QUICK = [word for name in ("epochs=1", "inducing_count=5", "factors=3") for word in ("--set", name)]

#: The arguments of each benchmark; DATA, FILE, TWO and CORPUS stand for small data of each kind, OUT for a folder.
BENCHMARKS = {
    "assignment": ["DATA", "--peers", "", *QUICK],
    "bmlpl": ["DATA", "-T", "4", "--iterations", "3"],
    "cluster": ["time", "DATA", "--workers", "0", "--options", "-P 3 --epochs 1"],
    "expectations": ["DATA", "--seeds", "1", "--only", "passes", *QUICK],
    "gpc": ["TWO", "-M", "5", "--iterations", "2"],
    "learning": ["growth"],
    "many_labels": ["--generate", "100", "30", "12", "--features", "8", "--labels", "2", "--generated-peers", ""]
    + ["--options", "--epochs 1 -P 3", "--repeats", "1", "--folder", "OUT"],
    "negatives": ["DATA", "--labels", "30", "--seeds", "1", "--sampled", "3", *QUICK],
    "out_of_core": ["--folder", "OUT", "--scale", "0.0002", "-R", "20", "-M", "10", "-P", "3"],
    "precision": ["--data", "DATA", "--only", "no-calibration", "--seeds", "2", *QUICK],
    "prediction": ["DATA", "--large-labels", "0", "--repeats", "1", "--peers", ""],
    "probabilities": ["DATA", "--strength", "0.5", *QUICK],
    "read": ["FILE"],
    "recipes": ["DATA", "--recipe", "default"],
    "scaling": ["--vary", "N", "--base", "60", "30", "10", *QUICK],
    "step": ["--case", "bibtex s-LINEAR", "--steps", "2"],
    "text": ["corpus", "CORPUS", "--options", "--epochs 1 -P 3 -M 5"],
    "time_to_precision": ["DATA", "--peers", "", *QUICK],
    "topics": ["DATA", "--seeds", "1", "--only", "iterations=20"],
    "two_classes": ["TWO", "--inference", "vi-taylor"],
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the places of small data. Commands run in this process, and no peer is measured."""
    found = {name: tmp_path / name for name in ("DATA", "CORPUS", "OUT")}
    for folder in found.values():
        folder.mkdir()
    found |= {"FILE": found["DATA"] / "train.txt", "TWO": tmp_path / "two.svm"}
    points = np.random.default_rng(0).normal(size=(60, 3))
    dump_svmlight_file(points, np.sign(points[:, 0]), str(found["TWO"]), zero_based=False)
    for name, count in ("train", 60), ("test", 20):
        write_dataset(found["DATA"] / f"{name}.txt", small_dataset(count, seed=count))
        kinds = [("audio player", "sound"), ("word processor", "text")]
        texts = [{"id": str(i), "text": f"{kinds[i % 2][0]} {i}", "labels": [kinds[i % 2][1]]} for i in range(count)]
        (found["CORPUS"] / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))

    def command(*arguments, **options):
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(harness, "xmlgp", command)
    monkeypatch.setattr(
        harness, "run_xmlgp", lambda *args, **options: command(*args) and None or harness.Usage(1, 1, 1)
    )
    monkeypatch.setattr(harness, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(peers, "measure", lambda *arguments, **options: {})
    monkeypatch.setattr(learning, "SIZES", [(100, 50), (200, 50)])
    for constant, value in {"FEATURES": 900, "BATCH": 60, "BATCH_LABELS": 40}.items():
        monkeypatch.setattr(learning, constant, value)
    monkeypatch.setattr(scaling, "MULTIPLES", (1, 2))
    return found


#: Those that take longest.
LONG = {"gpc", "learning", "out_of_core", "scaling", "step", "two_classes"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in LONG)) for name in BENCHMARKS]
)
def test_a_benchmark_runs_on_small_data(places, tmp_path, name):
    arguments = [str(places.get(argument, argument)) for argument in BENCHMARKS[name]]
    module = importlib.import_module(name)
    result = CliRunner().invoke(module.main, [*arguments, "--json", str(tmp_path / "out.json")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1
    assert "machine" in json.loads((tmp_path / "out.json").read_text())


def test_folders_without_data_are_skipped(tmp_path):
    result = CliRunner().invoke(probabilities.main, [str(tmp_path)])
    assert (result.exit_code, result.stderr) == (0, f"{tmp_path} is skipped: it has no train.txt and test.txt\n")


@pytest.mark.parametrize("K", [3, 30])
def test_means_over_points_are_the_ranking_measures(K):
    random = np.random.default_rng(0)
    # Some points without labels, with many labels more than five.
    scores, labels = random.random((50, K)), sp.csr_array(random.random((50, K)) < 0.3 * random.random((50, 1)))
    weights = 1 / propensities(labels)
    found = by_point(np.argsort(-scores, axis=1)[:, :5], labels, weights)
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


def test_logistic_regression_agrees_with_scikit_learn():
    train, test = small_dataset(60), small_dataset(30, seed=7)
    found = probabilities.predict_logistic(train, test, 4, False).probabilities
    model = OneVsRestClassifier(LogisticRegression(C=4, solver="liblinear", random_state=0))
    model.fit(normalize(train.features), train.labels.toarray())
    np.testing.assert_allclose(found, model.predict_proba(normalize(test.features)), rtol=1e-3)


def test_predictions_of_peers_become_a_scores_file(tmp_path):
    # -1 where a peer found fewer labels.
    rows = peers.ranked(np.array([[3, 0, 5, 1, 2], [4, -1, -1, -1, -1], [-1] * 5]))
    peers.write_scores(tmp_path / "scores", rows, 6)
    scores = read_scores(tmp_path / "scores")
    assert (scores.K, scores.indptr.tolist(), scores.labels.tolist()) == (6, [0, 5, 6, 6], [3, 0, 5, 1, 2, 4])
    assert scores.scores.tolist() == [5, 4, 3, 2, 1, 5]


PACKAGES = """\
Package: viewer
Description-md5: 1a
Depends: libc6 (>= 2.34), libdraw1 (>= 1.0) | libdraw0, python3:any, libmap2[amd64]
Tag: role::program, use::viewing,
 works-with::{image,text}

Package: libdraw1
Description-md5: 2b
Tag: role::shared-lib

"""

TRANSLATION = """\
Package: viewer
Description-md5: 1a
Description-en: Viewer of pictures
 It is a viewer for C++ pictures.

Package: libdraw1
Description-md5: 2b
Description-en: drawing library
"""


def test_an_index_of_packages_gives_three_data_sets(tmp_path):
    for name, text in ("packages", PACKAGES), ("translation", TRANSLATION):
        (tmp_path / name).write_text(text)
    sets = collect(read_index(tmp_path / "packages"), read_index(tmp_path / "translation"))
    words, about = (
        ["viewer", "pictures", "viewer", "c++", "pictures"],
        "Viewer of pictures It is a viewer for C++ pictures.",
    )
    tags = {"role::program", "use::viewing", "works-with::image", "works-with::text"}
    drawing = Example(["drawing", "library"], {"role::shared-lib"}, "libdraw1", "drawing library")
    assert sets["tags"] == [drawing, Example(words, tags, "viewer", about)]
    assert sets["deps"] == [
        Example([*words, "viewer"], {"libdraw1", "python3", "libmap2"}, "viewer", f"{about} viewer")
    ]


def test_data_sets_of_packages_can_be_read(tmp_path):
    packages, translation = "", ""
    for i in range(20):
        kind, words = [("sound", "audio player"), ("text", "word processor")][i % 2]
        about = f"Package: p{i:02}\nDescription-md5: {i}\n"
        packages += f"{about}Depends: lib{kind}\nTag: works-with::{kind}\n\n"
        translation += f"{about}Description-en: {words}\n {words} number n{i}\n\n"
    (tmp_path / "packages").write_text(packages)
    (tmp_path / "translation").write_text(translation)
    options = ["--packages", tmp_path / "packages", "--translation", tmp_path / "translation"]
    result = CliRunner().invoke(main, list(map(str, [*options, tmp_path / "out"])), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    train, test = (read_dataset(tmp_path / "out" / "tags" / f"{part}.txt") for part in ("train", "test"))
    assert (train.N, test.N, train.D, train.K) == (15, 5, 5, 2)
    # Features and labels are in alphabetical order: audio and sound first.
    assert np.array_equal(train.features.toarray()[:, 0] > 0, train.labels.toarray()[:, 0])
