"""Other tools are measured fairly: on all points, with lists that no beam limits, and with scores that differ."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import peers, text_peers


def test_a_point_without_labels_counts_as_missed():
    Y = sp.csr_matrix([[1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    predicted = np.array([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])
    assert peers.precision(predicted, Y) == pytest.approx({"P@1": 50, "P@3": 100 / 3, "P@5": 20})


@pytest.mark.parametrize(("count", "beam"), [(5, 10), (64, 64)])
def test_the_beam_of_omikuji_is_as_wide_as_the_list(monkeypatch, count, beam):
    asked = []

    class Model:
        def predict(self, row, **options):
            asked.append((row, options))
            return [(0, 0.5)]

    monkeypatch.setattr(peers.Omikuji, "__init__", lambda self: None)
    peer = peers.Omikuji()
    peer.model = Model()
    assert peer.rank(sp.csr_matrix([[0, 0.5, 1.0]]), count) == [[(0, 0.5)]]
    assert asked == [([(1, 0.5), (2, 1.0)], {"beam_size": beam, "top_k": count})]


def test_equal_scores_of_all_labels_are_refused():
    text_peers.require_differences([[(3, 0.5)], [(1, 0.5), (2, 0.5)], [(1, 0.5), (2, 0.25)]])
    text_peers.require_differences([[(3, 0.5)]])
    with pytest.raises(SystemExit, match="make peers"):
        text_peers.require_differences([[(3, 0.5)], [(1, 0.5), (2, 0.5)]])


def test_a_missing_environment_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "PYTHON", tmp_path / "python")
    with pytest.raises(SystemExit, match="make peers"):
        peers.measure(tmp_path, ["omikuji"])
