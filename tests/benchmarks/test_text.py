"""The comparison on text: generated documents, what peers read and write, and the tables."""

import json

import numpy as np
import pytest
import text
import text_peers
from click.testing import CliRunner
from scipy.sparse import csr_matrix

from tests.cli.command import run
from xmlgp.data.repository_format import read_dataset


def tables(output):
    """Return the cells of the tables in an output, a list of rows for each."""
    parts = [part.splitlines() for part in output.split("\n\n") if part.startswith("|")]
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in part] for part in parts]


@pytest.fixture
def corpus(tmp_path):
    """A folder with documents of two kinds, which one word distinguishes."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    kinds = [("audio player", "sound"), ("word processor", "text")]
    for name, count in ("train", 60), ("test", 20):
        documents = (
            {"id": f"{name}{i}", "text": f"{kinds[i % 2][0]} number {i}", "labels": [kinds[i % 2][1]]}
            for i in range(count)
        )
        lines = "".join(json.dumps(document) + "\n" for document in documents)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


def test_variants_are_trained_from_text(tmp_path, corpus, monkeypatch):
    def within(*arguments, env):
        assert run(*arguments).exit_code == 0
        return {"seconds": 1.0, "processor_s": 1.0, "peak_mb": 1.0}

    # New processes take seconds to start.
    monkeypatch.setattr(text, "measured_xmlgp", within)
    monkeypatch.setattr(text.recipes, "xmlgp", lambda *arguments, env: run(*arguments).stdout)
    options = ["--options", "--epochs 1 -P 3 -M 5", "--variant", "", "--variant", "--min-count 2"]
    arguments = ["corpus", corpus, *options, "--json", tmp_path / "out.json"]
    result = CliRunner().invoke(text.main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("N=60, K=2, test documents:\n")
    measures, times = tables(result.stdout)
    assert [row[0] for row in measures[2:]] == [row[0] for row in times[2:]] == ["xmlgp", "xmlgp --min-count 2"]
    written = json.loads((tmp_path / "out.json").read_text())
    # Each document has a number of its own.
    assert written["xmlgp"]["sizes"]["D"] > written["xmlgp --min-count 2"]["sizes"]["D"] == 5
    assert written["xmlgp"]["seconds"] == pytest.approx(sum(written["xmlgp"]["steps"].values()))
    assert 0 <= written["xmlgp"]["ECE@5"] <= 1


def test_peers_train_on_points_in_the_format_of_the_repository(tmp_path):
    X = csr_matrix(np.array([[0, 0.5, 0.25], [0, 0, 0], [1, 0, 0]]))
    text_peers.write_points(tmp_path / "x", X, [[0, 2], [1], []], 3)
    dataset = read_dataset(tmp_path / "x", cache=False)
    assert dataset.features.toarray().tolist() == X.toarray().tolist()
    assert dataset.labels.toarray().tolist() == [[True, False, True], [False, True, False], [False] * 3]
