#!/usr/bin/env bash
# sparse_dot_topn 1.2.0 (with SciPy 1.17.1, NumPy 2.4.6): the default threshold, None, drops every product that is not
# positive, and whether it does depends on `sort`.
#
# Expected: the n best products of each row. The package's page says of the default: "`threshold` no longer `0.0` but
# disabled by default. This enables proper functioning for matrices that contain negative values", and that
# `sp_matmul_topn(A, B, top_n=B.shape[1])` is equal to `A.dot(B)`; `sort` is said to change the order only.
# Seen: with threshold=None a row keeps its positive products only. A row with negative products only comes back
# empty, though `top_n` asks for two. With `top_n` = all columns they are there with sort=False and gone with sort=True.
# threshold=-inf, which should be the same as no threshold, returns the right ones.
# Who meets it: whoever takes the best labels of a one-vs-rest linear model (decision values, nearly all negative) or of
# log-probabilities: points lose labels, hard points lose all of them, and P@k counts these as errors of the model.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    sparse_dot_topn==1.2.0 scipy==1.17.1 numpy==2.4.6 psutil
"$folder/venv/bin/python" - <<'PY'
import numpy as np
import scipy.sparse as sp
import sparse_dot_topn
from sparse_dot_topn import sp_matmul_topn

print("sparse_dot_topn", sparse_dot_topn.__version__)
points = sp.csr_matrix(np.eye(2))
weights = sp.csr_matrix([[-1.0, -2.0, 3.0], [-4.0, -5.0, -6.0]])
print("all products:", (points @ weights).toarray().tolist())


def best(top_n: int, **options: object) -> list[list[float]]:
    for threads in (1, 2):
        product = sp_matmul_topn(points, weights, top_n=top_n, n_threads=threads, **options).toarray().tolist()
        print(f"top_n={top_n}, {options}, {threads} threads: {product}")
    return product


# The surprise: two of three asked for, without a threshold.
assert best(2) == [[0, 0, 3], [0, 0, 0]]
# All three asked for: what is in the matrix depends on whether it is sorted.
assert best(3, sort=False) == [[-1, -2, 3], [-4, -5, -6]]
assert best(3, sort=True) == [[0, 0, 3], [0, 0, 0]]
# The control: a threshold below every product.
assert best(2, threshold=-np.inf) == [[-1, 0, 3], [-4, -5, 0]]
assert best(3, sort=True, threshold=-np.inf) == [[-1, -2, 3], [-4, -5, -6]]

# The same for a linear model with many labels.
rng = np.random.default_rng(0)
rows = sp.random(1000, 500, density=0.05, format="csr", random_state=rng)
model = sp.random(500, 2000, density=0.5, format="csr", random_state=rng)
model.data = rng.normal(loc=-0.5, scale=0.5, size=model.nnz)
rows, model = sp.csr_matrix(rows), sp.csr_matrix(model)
counts = np.diff(sp_matmul_topn(rows, model, top_n=5, sort=True).indptr)
control = np.diff(sp_matmul_topn(rows, model, top_n=5, sort=True, threshold=-np.inf).indptr)
print("labels a point of the five asked for: default", counts.mean(), "threshold=-inf", control.mean())
print("points without any label: default", (counts == 0).sum(), "threshold=-inf", (control == 0).sum())
assert counts.mean() < 4 and counts.min() == 0 and control.min() == 5
print("seen: products that are not positive are dropped without a threshold")
PY
