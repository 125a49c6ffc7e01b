"""NumPy's `.npy` files, format version 1.0, without pickles."""

import warnings

import numpy as np

__all__ = ["map_array", "read_array", "write_array"]


def write_array(stream, array):
    """Write an array to a binary stream in its own order, C's or Fortran's."""
    array = np.asarray(array, order="A")
    # Copied only if it has neither order: a basis in Fortran's order can fill a tenth of the memory.
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    # ndarray.tofile would not report why it failed.
    stream.write((array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8))


def read_array(stream, shape, dtype):
    """Return an array of the user's own file; raise ValueError if it has another shape or dtype."""
    array = np.lib.format.read_array(stream)
    if array.shape != shape or array.dtype != dtype:
        raise ValueError("the array has another shape or type")
    return array


def map_array(file):
    """Return the array in an untrusted file, memory-mapped and read-only; raise ValueError if it does not hold one.

    Nothing that the header claims is allocated, and the mapping cannot go beyond the end of the file.
    """
    try:
        with warnings.catch_warnings():
            # Headers written by Python 2, and strings with invalid escapes: this package writes neither.
            warnings.simplefilter("error")
            # Caused by a signal while a file is open.
            warnings.simplefilter("ignore", ResourceWarning)
            return np.lib.format.open_memmap(file, mode="r")
    except (MemoryError, OSError):
        raise
    except Exception as error:  # whatever NumPy raises when it evaluates a damaged header
        raise ValueError("this is not a .npy file") from error
