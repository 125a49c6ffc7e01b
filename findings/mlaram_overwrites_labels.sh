#!/usr/bin/env bash
# Package: scikit-multilearn-ng 0.0.8 (`skmultilearn.adapt.MLARAM`), with scikit-learn 1.9.1.
#
# Expected: `fit(X, y)` reads the labels and leaves them as they are (the convention of scikit-learn, on which the package
# is built), and `predict` answers for each row by that row alone.
#
# Seen: the neurons of the model are views of rows of `y`, and training adds the labels of later points to them. After
# `fit` the caller's 0/1 matrix holds counts. Whatever is trained on the same matrix next is trained on other labels: here
# 1-nearest-neighbour, which must be perfect on its own training points, is no longer. And `predict` scales its rows by the
# minimum and maximum of the batch, so that a point's labels depend on the points it is sent with.
#
# Who meets it: whoever compares several classifiers in a loop over one X and y, and whoever serves one point at a time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    scikit-multilearn-ng==0.0.8 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cat > "$folder/script.py" << 'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier
from skmultilearn.adapt import MLARAM, MLkNN

print("scikit-multilearn-ng", version("scikit-multilearn-ng"), "scikit-learn", version("scikit-learn"))
generator = np.random.default_rng(0)
y = (generator.random((300, 5)) < [0.5, 0.3, 0.2, 0.1, 0.4]).astype(int)
x = y @ generator.normal(size=(5, 10)) * 2 + generator.normal(size=(300, 10))


def dense(labels: object) -> np.ndarray:
    return labels.toarray() if sparse.issparse(labels) else np.asarray(labels)


def look(model: object) -> tuple[int, float, float]:
    mine = y.copy()
    model.fit(x, mine)
    changed = int((mine != y).sum())
    neighbour = KNeighborsClassifier(1).fit(x, mine)
    right = float((neighbour.predict(x) == y).mean())
    together = dense(model.predict(x))
    alone = np.vstack([dense(model.predict(x[i : i + 1])) for i in range(len(x))])
    same = float((together == alone).all(axis=1).mean())
    print(f"\nafter {type(model).__name__}.fit(x, y):")
    print(f"  {changed} of {y.size} entries of y are no longer what they were; values in y: {np.unique(mine).tolist()}")
    print(f"  1-nearest-neighbour trained on this y gives {100 * right:.1f} % of the true labels of its own points")
    print(f"  {100 * same:.1f} % of the points get the same labels alone as in the batch of 300")
    return changed, right, same


changed, right, same = look(MLkNN(k=10))
assert changed == 0 and right == 1 and same == 1, "the control changed"
changed, right, same = look(MLARAM())
assert changed > 50, "fit leaves y as it was"
assert right < 0.97, "the next classifier is trained on the true labels"
assert same < 0.9, "a point gets the same labels alone and in a batch"
print("\nSeen: fit overwrites the caller's labels, and predictions depend on the batch.")
PYTHON
"$folder/env/bin/python" "$folder/script.py"
