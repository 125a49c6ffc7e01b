#!/usr/bin/env bash
# sparse 0.19.3 of PyData (with SciPy 1.17.1, NumPy 2.4.6, Numba 0.68.1): unique_values returns 0 twice and nonzero
# returns zeros, if the SciPy matrix it was made of stores a zero.
#
# Expected: what an entry is worth decides, not whether it is stored. The docstrings promise "the unique elements of an
# input array" and "the indices where this array is nonzero", and refer to NumPy's function; SciPy's nonzero leaves
# stored zeros out.
# Seen: for 1 0* 0 0 / 0 0 2 0, where 0* is stored, unique_values is 0, 0, 1, 2; unique_counts has 0 five times and
# once again one time; nonzero lists the stored zero, while (x == 0).sum() counts it as a zero.
# Who meets it: whoever cuts scores by a threshold (`scores.data[scores.data < t] = 0`) or reads a file with "7:0" in
# it, and then counts labels or gathers the pairs of point and label.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    sparse==0.19.3 scipy==1.17.1 numpy==2.4.6 numba==0.68.1
"$folder/venv/bin/python" - <<'PY'
import numpy as np
import scipy.sparse as sp
import sparse

print("sparse", sparse.__version__)
scores = sp.csr_array(np.array([[1.0, 0.1, 0, 0], [0, 0, 2.0, 0]]))
scores.data[scores.data < 0.5] = 0


def report(name: str, matrix: sp.csr_array) -> dict[str, list]:
    """Return what sparse says of the matrix."""
    array = sparse.COO.from_scipy_sparse(matrix)
    assert np.array_equal(array.todense(), matrix.toarray())
    counts = sparse.unique_counts(array)
    found = {
        "unique_values": sparse.unique_values(array).tolist(),
        "unique_counts": list(zip(counts.values.tolist(), counts.counts.tolist())),
        "nonzero": [axis.tolist() for axis in sparse.nonzero(array)],
        "zeros": int((array == 0).sum().todense()),
    }
    print(name, found)
    return found


# The surprise.
stored = report("with a stored zero:", scores)
assert stored["unique_values"] == [0, 0, 1, 2]
assert stored["unique_counts"] == [(0, 5), (0, 1), (1, 1), (2, 1)]
assert stored["nonzero"] == [[0, 0, 1], [0, 1, 2]]
assert stored["zeros"] == 6
# The controls: SciPy and NumPy on the same matrix, and sparse without the stored zero.
assert [axis.tolist() for axis in scores.nonzero()] == [[0, 1], [0, 2]]
assert np.unique(scores.toarray()).tolist() == [0, 1, 2]
without = scores.copy()
without.eliminate_zeros()
pruned = report("without it:", without)
assert pruned["unique_values"] == [0, 1, 2]
assert pruned["unique_counts"] == [(0, 6), (1, 1), (2, 1)]
assert pruned["nonzero"] == [[0, 1], [0, 2]]
print("seen: a stored zero is a value of its own")
PY
