"""The compared assignments: rules applied to scores, and the table of all of them."""

import json

import assignment
import numpy as np
import pytest
import scipy.sparse as sp
from assignment import best_fixed, select
from click.testing import CliRunner
from peers import write_scores
from sklearn.metrics import f1_score

from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.prediction.assignment import AssignmentRule
from xmlgp.prediction.scores_file import Scores, read_scores

#: The second point has two labels only, as a peer may list fewer.
SCORES = Scores(np.array([0, 3, 5]), np.array([4, 0, 2, 1, 3], np.int32), np.array([0.9, 0.5, 0.1, 0.6, 0.2]), 5)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (AssignmentRule(0.5), [[4, 0], [1]]),
        (AssignmentRule(0.2, 1), [[4], [1]]),
        (AssignmentRule(limit=2), [[4, 0], [1, 3]]),
        (AssignmentRule(limit=3), [[4, 0, 2], [1, 3]]),
        (AssignmentRule(0.7), [[4], []]),
    ],
)
def test_rules_choose_from_lists_of_any_length(rule, expected):
    found = select(SCORES, rule)
    assert [part.tolist() for part in np.split(found.labels, found.indptr[1:-1])] == expected


def test_the_best_fixed_number_of_labels_agrees_with_scikit_learn():
    random = np.random.default_rng(0)
    scores, truth = random.random((20, 6)), random.random((20, 6)) < 0.4
    order = np.argsort(-scores, axis=1)
    found = best_fixed(
        Scores.from_top(order.astype(np.int32), np.sort(scores, axis=1)[:, ::-1], 6), sp.csr_array(truth)
    )
    values = [f1_score(truth, np.argsort(order, axis=1) < k, average="micro") for k in range(1, 7)]
    assert found["f1-micro"] == [pytest.approx(100 * max(values)), f"k={np.argmax(values) + 1}"]


def test_scores_of_peers_become_a_scores_file(tmp_path):
    write_scores(tmp_path / "scores", [[(3, 0.5), (0, 0.125)], [], [(1, 1e-7)]], 4)
    scores = read_scores(tmp_path / "scores")
    assert (scores.N, scores.K) == (3, 4)
    assert scores.indptr.tolist() == [0, 2, 2, 3]
    assert scores.labels.tolist() == [3, 0, 1]
    assert scores.scores.tolist() == [0.5, 0.125, 1e-7]


def test_all_choices_are_measured_and_folders_without_data_are_skipped(tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    for name, seed in ("train.txt", 0), ("test.txt", 7):
        write_dataset(tmp_path / "small" / name, small_dataset(60, seed=seed))

    def measure(data, names, python, scores, listed):
        assert (data / "train.txt").is_file()
        write_scores(scores / "omikuji.scores", [[(0, 0.5), (1, 0.25)]] * 60, 7)
        return dict.fromkeys(names, {})

    monkeypatch.setattr(assignment.peers, "measure", measure)
    (tmp_path / "nothing").mkdir()
    quick = [word for name in ("epochs=1", "inducing_count=5", "factors=3") for word in ("--set", name)]
    arguments = [tmp_path / "nothing", tmp_path / "small", "--json", tmp_path / "out.json"]
    result = CliRunner().invoke(assignment.main, [*map(str, arguments), *quick])
    assert result.exit_code == 0, result.output
    assert f"{tmp_path / 'nothing'} is skipped: it has no train.txt and test.txt\n" in result.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["small"]
    ours = ["p ≥ 0.5", "fixed k, best", "tuned", "expected F1", "threshold, best"]
    assert list(rows) == [*ours, "omikuji: fixed k, best", "omikuji: threshold, best"]
    for name, found in rows.items():
        assert list(found) == ["f1-micro", "f1-macro", "f1-point"]
        assert f"| {name} | {found['f1-micro'][0]:.2f}" in result.stdout
    for metric in "f1-micro", "f1-macro", "f1-point":
        best = rows["threshold, best"][metric][0]
        assert best >= max(rows[name][metric][0] for name in ("p ≥ 0.5", "fixed k, best", "tuned"))
