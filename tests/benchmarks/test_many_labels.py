"""The comparison on many labels: the features and scores that are exchanged with peers, and the tables."""

import json

import many_labels
import numpy as np
import pytest
from click.testing import CliRunner
from peers import ranked, write_scores

from tests.cli.command import run
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.scores_file import read_scores


def test_predictions_of_peers_become_a_scores_file(tmp_path):
    path = tmp_path / "scores"
    # -1 where a peer found fewer labels.
    write_scores(path, ranked(np.array([[3, 0, 5, 1, 2], [4, -1, -1, -1, -1], [-1] * 5])), 6)
    scores = read_scores(path)
    assert scores.K == 6
    assert scores.indptr.tolist() == [0, 5, 6, 6]
    assert scores.labels.tolist() == [3, 0, 5, 1, 2, 4]
    assert scores.scores.tolist() == [5, 4, 3, 2, 1, 5]


def test_parts_of_training_are_separated(monkeypatch):
    class Folder:
        settings = MLGPFSettings(epochs=3)
        description = {
            "history": [{"seconds": seconds} for seconds in (1.0, 2.0, 3.0, 5.0, 8.0)],
            "data": {"N": 100},
        }

    monkeypatch.setattr(many_labels.harness, "in_fresh_process", lambda *arguments: [0.5, 0.25])
    parts = many_labels.training_parts(None, Folder, 20.0, None)
    assert parts == {
        "reading": [1, 0.5],
        "preprocessing": [1, 0.25],
        "epochs": [3, 3.0],
        "sweeps over the labels": [2, 5.0],
        "rest": [1, 11.25],
    }


def test_generated_data_have_their_tables_and_other_folders_are_skipped(tmp_path, monkeypatch):
    # New processes take seconds to start.
    monkeypatch.setattr(many_labels.harness, "in_fresh_process", lambda function, *arguments: function(*arguments))

    def within(*arguments, env):
        assert run(*arguments).exit_code == 0
        return many_labels.harness.Usage(1.0, 1.0, 1.0)

    monkeypatch.setattr(many_labels.harness, "run_xmlgp", within)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path))
    quick = ["--options", "--epochs 1 -P 3", "--generated-peers", "", "--repeats", "1"]
    shape = ["--generate", "100", "30", "12", "--features", "8", "--labels", "2", "--folder", tmp_path / "data"]
    arguments = [tmp_path / "nothing", *shape, *quick, "--json", tmp_path / "out.json"]
    result = CliRunner().invoke(many_labels.main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{tmp_path / 'nothing'} is skipped: it has no train.txt and test.txt\n"
    measured = json.loads((tmp_path / "out.json").read_text())["generated"]
    assert measured["sizes"] == {"N": 100, "D": 30, "K": 12}
    ours, commands = measured["tools"]["xmlgp"], measured["commands"]
    assert all(0 < ours[name] <= 100 for name in many_labels.MEASURES)
    assert ours["train_s"] == pytest.approx(commands["preprocess"]["seconds"] + commands["train"]["seconds"])
    assert sum(seconds for _, seconds in measured["parts"].values()) == pytest.approx(ours["train_s"])
    assert list(commands) == ["preprocess", "train", "predict"]
    # Three tables, each of one width.
    tables = [part.splitlines() for part in result.stdout.split("\n\n") if part.startswith("|")]
    assert len(tables) == 3
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)
