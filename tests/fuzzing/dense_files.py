"""Damaged files of dense features."""

import io

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from tests.fuzzing.mangling import mangled
from tests.fuzzing.npy_files import TOKENS, damaged_npy, packed
from xmlgp.data.dense_files import read_dense
from xmlgp.errors import SettingsError

__all__ = ["DenseFiles"]

E = np.random.default_rng(0).normal(size=(6, 4)) * np.array([[1], [0], [1], [1], [1], [1]])


def _npz(save):
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


@st.composite
def _of_damaged_arrays(draw):
    """Draw an archive of a CSR matrix whose arrays have other numbers, shapes or types."""
    matrix = sp.csr_array(E)
    arrays = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    arrays |= {"shape": np.array(matrix.shape), "format": np.array(b"csr")}
    name = draw(st.sampled_from(list(arrays)[:4]))
    arrays[name] = draw(st.sampled_from([1, -1, 7, 2**31 - 1, 0])) + arrays[name]
    return _npz(lambda stream: np.savez(stream, **arrays))


NPZ = [_npz(lambda stream: np.savez(stream, E)), _npz(lambda stream: sp.save_npz(stream, sp.csr_array(E)))]


class DenseFiles:
    """Files of one array or a CSR matrix."""

    samples = st.one_of(
        st.tuples(
            st.just("npy"), st.sampled_from(["f2", "f4", "f8"]).flatmap(lambda t: damaged_npy(packed(E.astype(t))))
        ),
        st.tuples(st.just("npz"), st.one_of(st.just(NPZ[1]), mangled(NPZ, TOKENS), _of_damaged_arrays())),
    )

    def __init__(self, folder):
        self._folder = folder

    def check(self, sample):
        """Return whether a file was read: then all its numbers are finite."""
        ending, content = sample
        file = self._folder / f"dense.{ending}"
        file.write_bytes(content)
        try:
            dense = read_dense([file], "the points").dense
        except MemoryError:
            return False
        except SettingsError as error:
            refusal = str(error)
        else:
            assert np.isfinite(dense.values()).all()
            return True
        assert "\n" not in refusal
        return False
