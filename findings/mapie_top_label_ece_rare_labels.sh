#!/usr/bin/env bash
# MAPIE 1.6.0 (with scikit-learn 1.9.1, SciPy 1.17.1, NumPy 2.4.6): top_label_ece gives a label that is predicted once
# the same weight as a label that is predicted 9,901 times.
#
# Expected: the docstring cites Gupta and Ramdas (2021) for the measure, who define it as the expectation over points of
# |P(Y = c(X) | c(X), h(X)) - h(X)|: a label counts by how often it is predicted. With one bin a label that is the plain
# calibration error within each predicted label, weighted by the label's share of the points.
# Seen: the errors of the labels are averaged without weights, over the labels that are predicted at all. 10,000 points,
# 100 labels, one label predicted 9,901 times at 0.9 and right 90 % of the time, each other label predicted once: 0.009
# by the definition, 0.891 by MAPIE. With the 99 rare labels joined into one, the same points give 0.450.
# Who meets it: whoever has many labels with a long tail. The number is that of the labels predicted a few times, where
# |0 - 0.9| or |1 - 0.9| is chance, and models that predict more labels look worse.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    mapie==1.6.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
from importlib.metadata import version

import numpy as np
from mapie.metrics.calibration import expected_calibration_error, top_label_ece

print("MAPIE", version("mapie"))
points, labels = 10_000, 100
predicted = np.zeros(points, dtype=int)
predicted[-(labels - 1) :] = np.arange(1, labels)
score = np.full(points, 0.9)
# One in ten of the points of label 0 is wrong, and so is each point of another label.
wrong = (np.arange(points) % 10 == 0) | (predicted > 0)
true = np.where(wrong, (predicted + 1) % labels, predicted)


def by_definition(label_of: np.ndarray) -> float:
    """Return sum over labels of share * |accuracy - score|; all scores are 0.9, hence in one bin."""
    gap = np.bincount(label_of, ~wrong - score)
    return np.abs(gap).sum() / points


measured = top_label_ece(true, score, y_score_arg=predicted)
weighted = by_definition(predicted)
plain = expected_calibration_error((~wrong).astype(int), score)
print(f"{labels} labels: top_label_ece {measured:.4f}, by the definition {weighted:.4f}, without labels {plain:.4f}")
assert abs(weighted - 0.0090) < 0.001
assert abs(measured - 0.891) < 0.001

# The rare labels as one: the same scores, the same errors.
joined = np.minimum(predicted, 1)
joined_true = np.where(wrong, 1 - joined, joined)
measured = top_label_ece(joined_true, score, y_score_arg=joined)
weighted = by_definition(joined)
print(f"2 labels: top_label_ece {measured:.4f}, by the definition {weighted:.4f}")
assert abs(weighted - 0.0090) < 0.001
assert abs(measured - 0.450) < 0.001

# The control: two labels predicted as often as each other, for which weights make no difference.
half = np.arange(points) // (points // 2)
wrong = np.where(half == 0, np.arange(points) % 10 == 0, np.arange(points) % 2 == 0)
measured = top_label_ece(np.where(wrong, 1 - half, half), score, y_score_arg=half)
print(f"two labels of equal size: top_label_ece {measured:.4f}, by the definition {by_definition(half):.4f}")
assert abs(measured - by_definition(half)) < 1e-9 and abs(measured - 0.2) < 1e-9
print("seen: labels are averaged without weights")
PY
