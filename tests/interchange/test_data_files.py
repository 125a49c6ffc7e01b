"""Data files that xmlgp writes have the same points for other tools."""

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

from xmlgp.data.dataset import Dataset, Features
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset

#: Chance changes the scores of omikuji's linear models by less.
TOLERANCE = 1e-5

#: Neither the first nor the last feature and label occurs.
D, K = 12, 9

#: The labels and features of points, of which one has no labels, one no features, and one neither.
AWKWARD = [
    ([1], {1: 1e-5, 4: 0.1}),
    ([3, 6], {1: 123456, 6: -2.5}),
    ([], {2: 1 / 3, 3: 1e30, 10: 0.30000001}),
    ([2], {}),
    ([], {}),
    ([6], {3: 1}),
    ([1, 2, 3, 6, 7], {5: 3.4028235e38}),
    ([2], {1: -7, 7: 1e-38, 8: 16777217}),
    ([3, 7], {2: 0.5, 4: -0.25}),
    ([], {}),
]


def awkward():
    X, Y = np.zeros((len(AWKWARD), D), np.float32), np.zeros((len(AWKWARD), K), bool)
    for point, (labels, features) in enumerate(AWKWARD):
        Y[point, labels] = True
        X[point, list(features)] = list(features.values())
    return X, Y


def any_numbers():
    """Return features of any magnitude that float32 has, in random places, and of similar magnitudes."""
    random = np.random.default_rng(0)
    values = random.integers(0, 2**32, size=(500, 40), dtype=np.uint32).view(np.float32)
    values[250:] = random.normal(size=(250, 40))
    X = np.where(np.isfinite(values) & (random.random(values.shape) < 0.3), values, 0)
    return X, random.random((500, 25)) < 0.1


@pytest.fixture(params=[awkward, any_numbers], ids=["awkward", "any numbers"])
def points(request, tmp_path):
    """Return X and Y, and the folder with their files: train.txt, X.npz and Y.npz."""
    X, Y = request.param()
    write_dataset(tmp_path / "train.txt", Dataset(Features(csr_array(X)), csr_array(Y)))
    dataset = read_dataset(tmp_path / "train.txt")
    save_npz(tmp_path / "X.npz", dataset.features.sparse)
    save_npz(tmp_path / "Y.npz", dataset.labels)
    return X, Y, tmp_path


def test_scikit_learn_reads_all_points_but_those_without_labels_and_features(points, call):
    X, Y, folder = points
    read = call("read_with_sklearn", folder / "train.txt")
    kept = X.any(axis=1) | Y.any(axis=1)
    np.testing.assert_array_equal(read["X"], X[kept], strict=True)
    np.testing.assert_array_equal(read["Y"], Y[kept])


def test_napkinxc_reads_the_points_with_columns_up_to_the_last_that_occurs(points, call):
    X, Y, folder = points
    read = call("read_with_napkinxc", folder / "train.txt")
    columns, labels = (int(np.flatnonzero(matrix.any(axis=0))[-1]) + 1 for matrix in (X, Y))
    np.testing.assert_array_equal(read["X"], X[:, :columns], strict=True)
    np.testing.assert_array_equal(read["Y"], Y[:, :labels])
    np.testing.assert_array_equal(read["listed"], Y[:, :labels])


def test_pecos_loads_the_matrices_that_xmlgp_reads_from_its_file(points, call):
    X, Y, folder = points
    read = call("read_with_pecos", folder / "X.npz", folder / "Y.npz")
    np.testing.assert_array_equal(read["X"], X, strict=True)
    np.testing.assert_array_equal(read["Y"], Y, strict=True)
    assert read["classes"].tolist() == ["csr_matrix", "csr_matrix"]


def test_xmlgp_reads_rows_of_scikit_learn_behind_a_first_line(points, call):
    X, Y, folder = points
    call("write_with_sklearn", folder / "others.txt", folder / "X.npz", folder / "Y.npz")
    read = read_dataset(folder / "others.txt")
    np.testing.assert_array_equal(read.features.sparse.toarray(), X, strict=True)
    np.testing.assert_array_equal(read.labels.toarray(), Y, strict=True)


def test_omikuji_learns_the_same_from_the_same_points_of_another_writer(points, call):
    # It shows no points that it has read, so they are compared by what it learns.
    X, Y, folder = points
    call("write_with_sklearn", folder / "others.txt", folder / "X.npz", folder / "Y.npz")
    learned = call("learned_by_omikuji", folder / "X.npz", folder / "train.txt", folder / "others.txt")
    assert learned["D"].tolist() == [X.shape[1], X.shape[1]]
    ours, others = learned["scores"]
    np.testing.assert_allclose(ours, others, rtol=0, atol=TOLERANCE)
    # Labels that no point has are in no tree.
    assert ((ours >= 0) == Y.any(axis=0)).all()


def test_what_omikuji_learns_depends_on_each_label_and_value(call, tmp_path):
    # It scales points to unit length, so values far below others of their point do not count.
    X, Y = awkward()
    write_dataset(tmp_path / "train.txt", Dataset(Features(csr_array(X)), csr_array(Y)))
    save_npz(tmp_path / "X.npz", csr_array(X))
    text = (tmp_path / "train.txt").read_text()
    files = [tmp_path / "train.txt"]
    for old, new in ("4:-0.25", "4:0.25"), ("2:0.5 ", "2:0.51 "), ("3,7 ", "3,6 "), ("3:1\n", "9:1\n"):
        assert text.count(old) == 1
        files.append(tmp_path / f"{len(files)}.txt")
        files[-1].write_text(text.replace(old, new))
    ours, *others = call("learned_by_omikuji", tmp_path / "X.npz", *files)["scores"]
    assert min(np.abs(ours - other).max() for other in others) > 10 * TOLERANCE


def test_omikuji_refuses_a_line_that_ends_with_a_blank(call, tmp_path):
    # So `write_dataset` writes none.
    refused = {"": False, " ": True, "1 ": True, "1": False, " 1:1": False}
    files = [tmp_path / f"{number}.txt" for number in range(len(refused))]
    for file, line in zip(files, refused, strict=True):
        file.write_text(f"3 2 2\n0 0:1\n{line}\n1 1:1\n")
    assert call("refused_by_omikuji", *files)["refused"].tolist() == list(refused.values())


def test_xmlgp_writes_no_line_that_ends_with_a_blank(points):
    folder = points[2]
    assert not any(line.endswith((b" ", b"\t")) for line in (folder / "train.txt").read_bytes().splitlines())
