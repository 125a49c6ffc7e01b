"""Scores that other tools give have the same measures in xmlgp as in the tools, where the definitions are the same."""

import numpy as np

from xmlgp import evaluate

#: The measures of xmlgp are computed from sums in another order.
CLOSE = {"rtol": 1e-9, "atol": 0}

KS = range(1, 6)


def measured(scores, data, *names):
    """Return the measures @1 to @5 of a file of scores, as shares."""
    train = data / "train.txt"
    found = evaluate(scores, data / "test.txt", train=train, ks=KS, measures=["macro"]).measures
    return {name: [found[f"{name}@{k}"] / 100 for k in KS] for name in names}


def assert_same(theirs, ours):
    for name, values in ours.items():
        np.testing.assert_allclose(theirs[name], values, err_msg=name, **CLOSE)


def lists_in(file):
    """Return the lines of napkinXC as its Python functions return them: lists of pairs of label and probability."""
    pairs = ([pair.split(":") for pair in line.split()] for line in file.read_text().splitlines())
    return [[(int(label), float(score)) for label, score in row] for row in pairs]


def test_lines_and_lists_of_napkinxc_have_its_measures(data, call, tmp_path):
    scores = tmp_path / "scores.txt"
    theirs = call("score_with_napkinxc", data / "train.txt", data / "test.txt", scores)
    ours = measured(scores, data, "P", "nDCG", "PSP", "PSnDCG", "recall")
    assert_same(theirs, ours)
    assert measured(lists_in(scores), data, *ours) == ours
    # Its measure of this name divides the gains of each point by those of as many labels as the point has.
    np.testing.assert_allclose(theirs["PSnDCG by point"][0], ours["PSnDCG"][0], **CLOSE)
    assert abs(theirs["PSnDCG by point"][-1] - ours["PSnDCG"][-1]) > 1e-3


def test_lines_of_omikuji_have_the_measures_of_napkinxc(data, call, tmp_path):
    # omikuji has no measures in Python. The three decimals of its command make ties.
    files = tmp_path / "scores.txt", tmp_path / "rounded.txt"
    theirs = call("score_with_omikuji", data / "train.txt", data / "test.txt", *files)
    ours = [measured(file, data, "P", "nDCG", "PSP", "PSnDCG") for file in files]
    assert_same(theirs, {name: [values[name] for values in ours] for name in ours[0]})


def test_a_matrix_of_pecos_has_its_measures(data, call, tmp_path):
    theirs = call("score_with_pecos", data / "train.txt", data / "test.txt", tmp_path / "scores.npz")
    assert_same(theirs, measured(tmp_path / "scores.npz", data, "P", "recall"))


def test_an_array_of_scikit_learn_has_its_measures(data, call, tmp_path):
    theirs = call("score_with_sklearn", data / "train.txt", data / "test.txt", tmp_path / "scores.npy")
    ours = measured(tmp_path / "scores.npy", data, "P", "nDCG")
    assert_same(theirs, ours)
    assert measured(np.load(tmp_path / "scores.npy"), data, *ours) == ours
