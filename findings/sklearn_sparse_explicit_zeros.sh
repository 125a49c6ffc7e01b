#!/usr/bin/env bash
# Package: scikit-learn 1.9.1 (`sklearn.metrics`, `sklearn.preprocessing.MultiLabelBinarizer`), with SciPy 1.17.1.
#
# Expected: f1_score, precision_score, recall_score, jaccard_score and multilabel_confusion_matrix take "label indicator
# array / sparse matrix", and a stored 0 of a sparse matrix is a 0, as in a dense one. A confusion matrix has counts.
#
# Seen: these functions count the entries that are stored, whatever their values, except for the true positives, which are
# counted by value. The same predictions have one F1 as a dense array and another as a sparse matrix, raising the threshold
# lowers recall and leaves the number of predictions as it was, and the confusion matrix has negative counts. No warning.
# accuracy_score and hamming_loss of the same two matrices are right, so that the measures of one report disagree.
# MultiLabelBinarizer.inverse_transform lists the stored zeros as labels. `eliminate_zeros()` mends all of it.
#
# Who meets it: whoever thresholds the stored scores of a sparse matrix in place, `p.data = p.data >= t`, which is the way
# that does not touch the other entries, or masks labels by setting stored values to 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cat > "$folder/script.py" << 'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, multilabel_confusion_matrix
from sklearn.preprocessing import MultiLabelBinarizer

print("scikit-learn", version("scikit-learn"), "scipy", version("scipy"))
generator = np.random.default_rng(0)
gold = (generator.random((500, 8)) < 0.25).astype(int)
scores = csr_matrix(np.clip(gold * 0.35 + generator.random(gold.shape) * 0.6, 0.01, 1))
binarizer = MultiLabelBinarizer(sparse_output=True).fit([range(8)])


def figures(predicted: np.ndarray | csr_matrix) -> tuple[float, ...]:
    confusion = multilabel_confusion_matrix(csr_matrix(gold), predicted)
    return (
        f1_score(csr_matrix(gold), predicted, average="macro"),
        accuracy_score(csr_matrix(gold), predicted),
        hamming_loss(csr_matrix(gold), predicted),
        int(confusion[:, 0, 0].sum()),
        int(confusion[:, 1, 1].sum()),
    )


seen = {}
for threshold in (0.3, 0.5, 0.7):
    sparse = scores.copy()
    sparse.data = (sparse.data >= threshold).astype(int)
    clean = sparse.copy()
    clean.eliminate_zeros()
    print(f"\nthreshold {threshold}                macro F1  accuracy  Hamming  true neg.  true pos.  labels listed")
    for name, predicted in (("dense", sparse.toarray()), ("sparse, zeros dropped", clean), ("sparse", sparse)):
        row = figures(predicted)
        listed = sum(map(len, binarizer.inverse_transform(predicted)))
        seen[threshold, name] = (*row, listed)
        print(f"  {name:24} {row[0]:12.3f} {row[1]:9.3f} {row[2]:8.3f} {row[3]:10d} {row[4]:10d} {listed:14d}")

for threshold in (0.3, 0.5, 0.7):
    dense, clean, sparse = (seen[threshold, name] for name in ("dense", "sparse, zeros dropped", "sparse"))
    assert np.allclose(dense, clean), "the control changed"
    assert np.allclose(dense[1:3], sparse[1:3]) and dense[4] == sparse[4], "accuracy, Hamming or true positives changed"
    assert dense[0] - sparse[0] > 0.05, "macro F1 agrees"
    assert sparse[3] <= 0 < dense[3], "true negatives agree"
    assert sparse[5] == gold.size > dense[5], "inverse_transform leaves out the zeros"
assert seen[0.7, "sparse"][3] < 0, "no negative count of true negatives"
print("\nSeen: stored zeros count as predicted labels in some measures and not in others; counts below 0.")
PYTHON
"$folder/env/bin/python" "$folder/script.py"
