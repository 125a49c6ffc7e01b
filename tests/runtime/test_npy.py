"""Reading and writing .npy files, and damaged files."""

import io
import pickle
import warnings

import numpy as np
import pytest

from xmlgp.runtime.npy import map_array, read_array, write_array

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "Fortran order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "neither order": np.arange(24.0).reshape(4, 6)[::2, ::3],
    "scalar": np.array(2.5),
    "empty": np.empty((0, 3), np.int32),
    "other byte order": np.arange(3).astype(">i8"),
    "bool": np.array([True, False]),
}


def packed(array):
    stream = io.BytesIO()
    write_array(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_are_read_back_in_their_order(tmp_path, array):
    file = tmp_path / "array.npy"
    file.write_bytes(packed(array))
    for found in (
        map_array(file),
        read_array(io.BytesIO(file.read_bytes()), array.shape, array.dtype),
        np.load(file, allow_pickle=False),
    ):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        if array.flags.f_contiguous:
            assert found.flags.f_contiguous


CONTENT = packed(ARRAYS["matrix"])


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin-1")


DAMAGE = {
    "truncated": CONTENT[:-1],
    "a truncated header": CONTENT[:20],
    "a pickle": pickle.dumps(1),
    "objects": header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}\n") + pickle.dumps(1),
    "a larger shape": header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3000000000000)}\n") + bytes(24),
    "code": header("__import__('os')._exit(99)\n"),
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_raise_value_error(tmp_path, content):
    file = tmp_path / "array.npy"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"this is not a \.npy file"):
        map_array(file)


@pytest.mark.parametrize(("shape", "dtype"), [((3, 2), "<f4"), ((2, 3), ">f4")])
def test_another_array_raises_value_error(shape, dtype):
    with pytest.raises(ValueError, match="another shape or type"):
        read_array(io.BytesIO(CONTENT), shape, np.dtype(dtype))


def test_a_missing_file_raises_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        map_array(tmp_path / "missing.npy")


def test_a_size_beyond_64_bits_raises_value_error_without_a_warning(tmp_path):
    file = tmp_path / "array.npy"
    with file.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**32, 2**32)}
        np.lib.format.write_array_header_1_0(stream, header)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match=r"not a \.npy file"):
            map_array(file)
    assert caught == []
