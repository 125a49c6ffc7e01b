#!/usr/bin/env bash
# MAPIE 1.6.0 (with scikit-learn 1.9.1, SciPy 1.17.1, NumPy 2.4.6): the expected calibration error depends on the order
# of the rows with "array split", and "uniform" (the default) and "quantile" use one bin fewer than asked for.
#
# Expected: the calibration error is a mean over rows, so their order cannot matter. `num_bins` is "Number of bins to
# make the split in the y_score", and the definition that the docstring cites (Naeini et al. 2015) has that many bins.
# Seen: for rows that are wrong as often as they are sure (each y is 1 with probability 1 - p) the error is 0.50. With
# "array split" it is 0.50 if the rows are sorted by score and 0.002 if they are not, as is usual: the borders are the
# largest scores of chunks of rows in the order given, hence all next to 1, and nearly all rows fall into one bin. With
# "uniform" and two bins it is 0.002: two borders make one bin (the other holds scores of exactly 0).
# Who meets it: whoever compares calibrators of a classifier by MAPIE's own measure, with few bins for a small set: the
# worst model possible looks perfect.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    mapie==1.6.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
from importlib.metadata import version

import numpy as np
from mapie.metrics.calibration import expected_calibration_error

print("MAPIE", version("mapie"))
rng = np.random.default_rng(0)
scores = rng.random(20_000)
correct = (rng.random(len(scores)) < 1 - scores).astype(int)
by_score = np.argsort(scores)


def definition(num_bins: int) -> float:
    """Return the sum over equal bins of |sum of y - sum of p| / N."""
    bins = np.minimum((scores * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, correct - scores, num_bins)
    return np.abs(gaps).sum() / len(scores)


def errors(num_bins: int, strategy: str) -> tuple[float, float]:
    """Return the error of the rows as they are and of the same rows sorted by score."""
    options = {"num_bins": num_bins, "split_strategy": strategy}
    pair = (
        expected_calibration_error(correct, scores, **options),
        expected_calibration_error(correct[by_score], scores[by_score], **options),
    )
    print(f"{strategy}, {num_bins} bins: rows as they are {pair[0]:.4f}, the same rows sorted {pair[1]:.4f}")
    return pair


for num_bins in (2, 10):
    print(f"by the definition, {num_bins} bins: {definition(num_bins):.4f}")
    assert abs(definition(num_bins) - 0.5) < 0.01

# The surprise: the order of the rows.
for num_bins in (2, 10):
    drawn, ordered = errors(num_bins, "array split")
    assert drawn < 0.01 and abs(ordered - 0.5) < 0.01
# The surprise: two bins are one.
for strategy in ("uniform", "quantile"):
    drawn, ordered = errors(2, strategy)
    assert drawn < 0.01 and ordered < 0.01
# The control: with ten bins, the other strategies, in either order.
for strategy in ("uniform", "quantile"):
    drawn, ordered = errors(10, strategy)
    assert abs(drawn - ordered) < 1e-9 and abs(drawn - 0.5) < 0.01
print("seen: 'array split' depends on the order of the rows, and two bins are one")
PY
