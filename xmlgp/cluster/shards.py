"""Row shards: consecutive rows of a matrix on shared storage, as a worker reads them."""

from xmlgp.cluster.files import read
from xmlgp.data.dataset import as_csr

__all__ = ["read_rows"]


def read_rows(stored, rows):
    """Return consecutive rows of a matrix as a csr_array, whose elements are mapped from their files.

    Nothing of the size of the whole matrix is allocated, not even where SciPy would convert its indices to 64 bits.

    Parameters
    ----------
    stored : StoredMatrix
    rows : slice
        With `start` and `stop`.
    """
    indptr = read(stored.indptr)[rows.start : rows.stop + 1]
    part = slice(int(indptr[0]), int(indptr[-1]))
    data = None if stored.data is None else read(stored.data)[part]
    return as_csr(data, read(stored.indices)[part], indptr - indptr[0], stored.columns)
