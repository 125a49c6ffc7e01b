#!/usr/bin/env bash
# Dask 2026.8.0 and Distributed 2026.8.0 (with SciPy 1.17.1, NumPy 2.4.6): a SciPy sparse array counts as 56 bytes,
# the same matrix as csr_matrix by its data, so the target for a worker's managed memory is never reached.
#
# Expected: `dask.sizeof.sizeof` is about the bytes that the object holds, for csr_array as for csr_matrix: SciPy
# recommends sparse arrays for new code, and Distributed documents that a worker writes the least recently used data
# to disk when the memory that it manages, counted by sizeof, reaches the target.
# Seen: 1.2 MB as csr_matrix, 56 bytes as csr_array or coo_array. A worker's buffer with a target of 2 MB keeps ten
# arrays of 1.2 MB in memory and counts them as 560 bytes; of ten matrices it writes nine to disk.
# Who meets it: whoever keeps chunks of sparse features or labels in Dask. Code that moves to csr_array loses that
# limit (what is left is the check of the whole process), and what Dask decides by size goes by 56 bytes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    dask==2026.8.0 distributed==2026.8.0 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import dask
import distributed
import scipy.sparse as sp
from dask.sizeof import sizeof
from distributed.spill import SpillBuffer

print("dask", dask.__version__, "distributed", distributed.__version__)
random = sp.random(10_000, 1_000, density=0.01, format="csr", random_state=0)
matrix, array = sp.csr_matrix(random), sp.csr_array(random)
held = array.data.nbytes + array.indices.nbytes + array.indptr.nbytes
sizes = {type(x).__name__: sizeof(x) for x in (matrix, array, array.tocoo(), array.toarray())}
print("bytes held:", held, "sizeof:", sizes)
assert held <= sizes["csr_matrix"] < held + 1000
assert sizes["ndarray"] == 80_000_000
assert sizes["csr_array"] < 100 and sizes["coo_array"] < 100


def spilled(kind: type) -> tuple[int, int, int]:
    """Return how many of ten chunks stay in memory, how many go to disk, and the bytes counted as in memory."""
    buffer = SpillBuffer(f"{kind.__name__}-spill", target=2_000_000)
    for chunk in range(10):
        buffer[f"chunk-{chunk}"] = kind(random, copy=True)
    found = len(buffer.fast), len(buffer.slow), buffer.fast.total_weight
    print(f"ten {kind.__name__}, target 2 MB: {found[0]} in memory, {found[1]} on disk, counted {found[2]} bytes")
    return found


# The control and the surprise.
memory, disk, counted = spilled(sp.csr_matrix)
assert (memory, disk) == (1, 9) and counted <= 2_000_000
memory, disk, counted = spilled(sp.csr_array)
assert (memory, disk) == (10, 0) and counted < 1000 < 10 * held
print("seen: a sparse array counts as a few bytes")
PY
