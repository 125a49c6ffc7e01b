"""NumPy's `.npy` files, format version 1.0, without pickles."""

import contextlib
import warnings

import numpy as np

__all__ = ["map_array", "read_array", "read_header", "write_array", "write_header"]


def write_array(stream, array):
    """Write an array to a binary stream in its own order, C's or Fortran's."""
    array = np.asarray(array, order="A")
    # Copied only if it has neither order: a basis in Fortran's order can fill a tenth of the memory.
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    # ndarray.tofile would not report why it failed.
    stream.write((array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8))


def write_header(stream, dtype, length, row=()):
    """Write the header of an array, length×`row`, which takes the same number of bytes for every length."""
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": (length, *row)})


def read_header(stream):
    """Return shape, whether the order is Fortran's, and dtype; raise ValueError if this is not such a header."""
    with _as_value_error():
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("the version of the .npy format is not 1.0")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject:
        raise ValueError("the array holds Python objects")
    return shape, fortran_order, dtype


def read_array(stream, shape, dtype):
    """Return an array of a known shape and dtype; raise ValueError if the stream holds another one.

    The stream is read to its end, where a zip archive compares checksums.
    """
    found, fortran_order, found_dtype = read_header(stream)
    if found != shape or found_dtype != dtype:
        raise ValueError("the array has another shape or type")
    expected = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object))
    # One byte more shows whether the file is too long.
    content = stream.read(expected + 1)
    if len(content) != expected:
        raise ValueError("the file is too short or too long")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")


def map_array(file):
    """Return the array in a file, memory-mapped and read-only; raise ValueError if it does not hold one.

    Nothing that the header claims is allocated, and the mapping cannot go beyond the end of the file.
    """
    with _as_value_error():
        return np.lib.format.open_memmap(file, mode="r")


@contextlib.contextmanager
def _as_value_error():
    """Raise ValueError for whatever NumPy raises, or warns of, when it evaluates a damaged header."""
    try:
        with warnings.catch_warnings():
            # Headers written by Python 2, and strings with invalid escapes: this package writes neither.
            warnings.simplefilter("error")
            # Caused by a signal while a file is open.
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise ValueError("this is not a .npy file") from error
