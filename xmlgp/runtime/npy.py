"""NumPy's `.npy` files, format version 1.0, without pickles."""

import io
import os
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["map_array", "read_array", "write_array"]


def write_array(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Write an array to a binary stream in its own order, C's or Fortran's."""
    # Copied only if it has neither order: a basis in Fortran's order can fill a tenth of the memory.
    array = array if array.flags.forc else np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    # ndarray.tofile would not report why it failed.
    stream.write(array.reshape(-1, order="A").view(np.uint8).data)


def read_array(stream: io.BufferedIOBase, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array from an untrusted stream; raise ValueError if it has another shape or dtype.

    Nothing is allocated before the header says what is expected.
    """
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("the array is in another version of the format")
    stored_shape, _, stored_dtype = np.lib.format.read_array_header_1_0(stream)
    if stored_shape != shape or stored_dtype != dtype:
        raise ValueError("the array has another shape or type")
    stream.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    # A checksum is compared at the end.
    if stream.read(1):
        raise ValueError("the array is followed by something else")
    return array


def map_array(file: str | PathLike[str]) -> NDArray[Any]:
    """Return the array in an untrusted file, memory-mapped and read-only; raise ValueError if it does not hold one.

    Nothing that the header claims is allocated, and the mapping cannot go beyond the end of the file.
    """
    if os.path.exists(file) and not os.path.isfile(file):
        # Opening a pipe waits for its writer.
        raise ValueError("this is not a regular file")
    try:
        # NumPy multiplies the sizes that the header claims.
        with np.errstate(over="raise"):
            return np.lib.format.open_memmap(file, mode="r")
    except (MemoryError, OSError):
        raise
    except Exception as error:  # whatever NumPy raises when it evaluates a damaged header
        raise ValueError("this is not a .npy file") from error
