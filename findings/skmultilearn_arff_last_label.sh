#!/usr/bin/env bash
# Package: scikit-multilearn-ng 0.0.8 (`skmultilearn.dataset.load_from_arff`), with liac-arff 2.5.0. The code is the same
# in scikit-multilearn 0.2.0.
#
# Expected: the columns of a sparse ARFF file are its @ATTRIBUTE lines, and what a row does not list is 0. A label without
# a positive point gives an empty column. The documentation promises `y` of shape (n_samples, n_labels) with the label
# assignments, and the names of the attributes in the same order.
#
# Seen: with `load_sparse=True` the width of the matrix is the highest index that occurs, plus 1. If the last label has no
# positive point in the file, the label columns move by one, without a word: column 0 of `y` is the last feature cut to a
# whole number, column j is label j-1, and `X` has lost its last feature. The names stay as they are, so each name stands
# over the column of another label. The same rows in a dense file are read right.
#
# Who meets it: whoever reads a part of a MULAN data set (labels last, the rare ones often without a point), or a file
# from which points were taken.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    scikit-multilearn-ng==0.0.8 liac-arff==2.5.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cat > "$folder/script.py" << 'PYTHON'
from importlib.metadata import version

import numpy as np
from skmultilearn.dataset import load_from_arff

print("scikit-multilearn-ng", version("scikit-multilearn-ng"), "liac-arff", version("liac-arff"))
features = ["price", "weight", "age"]
labels = ["red", "green", "blue", "rare"]
x = np.array([[2.5, 0, 7.9], [0, 1.5, 3.2], [1, 1, 0], [0.5, 0, 4], [3, 2, 9.6]])
y = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]])


def write(name: str, y: np.ndarray, sparse: bool) -> str:
    lines = ["@relation things"]
    lines += [f"@attribute {name} numeric" for name in features]
    lines += [f"@attribute {name} {{0,1}}" for name in labels]
    lines += ["@data"]
    for row in np.hstack([x, y]):
        if sparse:
            lines.append("{" + ",".join(f"{j} {value:g}" for j, value in enumerate(row) if value) + "}")
        else:
            lines.append(",".join(f"{value:g}" for value in row))
    with open(name, "w") as file:
        file.write("\n".join(lines) + "\n")
    return name


def load(y: np.ndarray, sparse: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
    name = write("things.arff", y, sparse)
    x_read, y_read, _, names = load_from_arff(
        name, label_count=4, label_location="end", load_sparse=sparse, return_attribute_definitions=True
    )
    return x_read.toarray(), y_read.toarray(), [name for name, _ in names]


once = y.copy()
once[2, 3] = 1
for case, gold, sparse in [
    ("control: dense file, 'rare' without a point", y, False),
    ("control: sparse file, 'rare' with one point", once, True),
    ("sparse file, 'rare' without a point", y, True),
]:
    x_read, y_read, names = load(gold, sparse)
    print(f"\n{case}: X {x_read.shape}, y {y_read.shape}")
    for j, name in enumerate(names):
        print(f"  {name:6}in the file {gold[:, j]}   read {y_read[:, j]}")
    if case.startswith("control"):
        assert np.array_equal(x_read, x) and np.array_equal(y_read, gold)

assert names == labels and x_read.shape == (5, 2)
assert np.array_equal(y_read[:, 0], x[:, 2].astype(int)), "the first label is no longer the last feature"
assert np.array_equal(y_read[:, 1:], y[:, :3]), "the other labels are no longer moved by one"
print("\nSeen: each label column is that of its neighbour, and the first is a feature.")
PYTHON
cd "$folder"
"$folder/env/bin/python" script.py
