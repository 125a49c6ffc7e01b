#!/usr/bin/env bash
# sparse_dot_topn 1.2.0 (with SciPy 1.17.1, NumPy 2.4.6): the product of two CSC matrices is that of their transposes.
#
# Expected: A @ B whatever the format. The docstring says of A and of B: "the matrix is converted (copied) to CSR format
# if a CSC or COO matrix".
# Seen: if both are CSC and A.shape[0] == B.shape[1], the result is A.T @ B.T = (B @ A).T, silently. With square
# matrices the shape gives nothing away; X @ X.T for documents comes back as the matrix of the features, X.T @ X.
# One CSC matrix and one CSR, or two COO, give A @ B.
# Who meets it: whoever selects columns first (features, labels), for which CSC is the usual format: the product of a
# graph of labels with another, or of document vectors with themselves.
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
from sparse_dot_topn import sp_matmul, sp_matmul_topn

print("sparse_dot_topn", sparse_dot_topn.__version__)
dense_a = np.array([[1.0, 2.0], [0.0, 1.0]])
dense_b = np.array([[1.0, 0.0], [3.0, 1.0]])
a, b = sp.csr_matrix(dense_a), sp.csr_matrix(dense_b)
print("A @ B is", (dense_a @ dense_b).tolist(), "and (B @ A).T is", (dense_b @ dense_a).T.tolist())

for left, right in (("csr", "csr"), ("csc", "csr"), ("csr", "csc"), ("coo", "coo"), ("csc", "csc")):
    full = sp_matmul(a.asformat(left), b.asformat(right)).toarray()
    best = sp_matmul_topn(a.asformat(left), b.asformat(right), top_n=2, sort=True).toarray()
    print(f"A {left}, B {right}: sp_matmul {full.tolist()}, sp_matmul_topn {best.tolist()}")
    both_csc = (left, right) == ("csc", "csc")
    expected = (dense_b @ dense_a).T if both_csc else dense_a @ dense_b
    assert np.array_equal(full, expected) and np.array_equal(best, expected)

# Documents against themselves: 6 documents of 4 features give a matrix of 4 by 4.
x = sp.csr_matrix(np.random.default_rng(0).random((6, 4)))
control = sp_matmul(x, x.T.tocsr())
product = sp_matmul(x.tocsc(), x.T.tocsc())
print("X @ X.T of 6 documents: shape with CSR", control.shape, "with CSC", product.shape)
assert control.shape == (6, 6) and np.allclose(control.toarray(), (x @ x.T).toarray())
assert product.shape == (4, 4) and np.allclose(product.toarray(), (x.T @ x).toarray())
print("seen: two CSC matrices are multiplied as their transposes")
PY
