"""Damaged `.npy` files: headers with wrong claims, and arrays of other shapes, types and numbers."""

import io

import numpy as np
from hypothesis import strategies as st

from tests.fuzzing.mangling import mangled

__all__ = ["altered", "damaged_npy", "packed", "unpacked"]

DESCRS = [
    "'<f4'", "'<f8'", "'>f4'", "'<i4'", "'<i8'", "'>i8'", "'<f2'", "'<u4'", "'|u1'", "'|b1'", "'<c8'", "'|O'", "'<U9'",
    "'<M8[s]'", "'|V4'", "'<f16'", "[('a', '<f4')]", "('<f4', (2,))", "'nonsense'", "''", "None", "3", "'<f4\\0'",
]  # fmt: skip
ORDERS = ["False", "True", "1", "None", "'False'"]
SHAPES = [
    "()", "(0,)", "(1,)", "(2, 3)", "(3, 2)", "(-1,)", "(-2, -3)", "(6L,)", "(2.0,)", "('2',)", "(True,)", "[2, 3]",
    "6", "(1000000000,)", "(1000000000, 1000000000)", "(4611686018427387904, 2)", "(9223372036854775807,)",
    "(18446744073709551616,)", f"({'9' * 4000},)", "(0, 9223372036854775807, 9223372036854775807)",
    "(" + "1, " * 40 + ")", "(" + "1, " * 70 + ")", "None", "(2, 3", "__import__('os')", "(" * 100 + ")" * 100,
]  # fmt: skip
TOKENS = [text.encode() for text in (*DESCRS, *ORDERS, *SHAPES)] + [
    b"\\d",
    b"1if",
    b"#",
    b"\x93NUMPY\x02\0",
    b"PK\x03\x04",
]

#: Numbers that replace others in damaged arrays.
NUMBERS = [
    0, 1, -1, 2, 7, 25, -(2**31), 2**31 - 1, 2**62, -(2**62), 0.5, -0.0, 1e-45, 1e-30, 30.0, 100.0, 1e10, -1e10, 3e38,
    -3e38, 1e300, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip


def packed(array):
    """Return the content of a `.npy` file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def unpacked(content):
    """Return the array in the content of a `.npy` file."""
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


@st.composite
def with_header(draw, content):
    """Draw a file with the same numbers after another header."""
    array = unpacked(content)
    descr = draw(st.sampled_from([repr(array.dtype.str)] * 9 + DESCRS))
    shape = draw(st.sampled_from([str(array.shape)] * 20 + SHAPES))
    header = f"{{'descr': {descr}, 'fortran_order': {draw(st.sampled_from(ORDERS))}, 'shape': {shape}, }}"
    if draw(st.integers(0, 9)) == 9:
        header = draw(st.sampled_from(["", "{}", "[" * 1000, "'" * 99, "9" * 5000, header + header, header[:-2]]))
    encoded = header.encode() + b"\n"
    return content[:8] + len(encoded).to_bytes(2, "little") + encoded + content[len(content) - array.nbytes :]


@st.composite
def altered(draw, array):
    """Draw an array with other numbers, another shape, type or order."""
    match draw(st.sampled_from(["numbers"] * 4 + ["shape"] * 2 + ["type", "order"])):
        case "numbers" if array.size:
            array = array.copy()
            for _ in range(draw(st.integers(1, 3))):
                number = draw(st.sampled_from(NUMBERS))
                with np.errstate(all="ignore"):
                    if array.dtype.kind in "iu":
                        number = int(np.clip(np.nan_to_num(number), -(2**31), 2**31 - 1))
                    number = np.array(number).astype(array.dtype)
                first = draw(st.integers(0, array.size - 1))
                array.reshape(-1)[first : first + draw(st.sampled_from([1, 1, 2, array.size]))] = number
        case "shape":
            array = draw(st.sampled_from(RESHAPINGS))(array)
        case "type":
            dtype = draw(st.sampled_from(["<f4", "<f8", ">f4", ">f8", "<i4", "<i8", ">i4", ">i8"]))
            with np.errstate(all="ignore"):
                array = np.nan_to_num(array).astype(dtype)
        case "order":
            array = np.asfortranarray(array)
    return array


RESHAPINGS = [
    lambda array: array[:-1] if array.ndim else array[None],
    lambda array: array[:0] if array.ndim else np.empty(0, array.dtype),
    lambda array: np.concatenate([array, array]) if array.ndim else np.stack([array, array]),
    lambda array: array[..., :-1] if array.ndim else array[None, None],
    lambda array: np.concatenate([array, array], axis=-1) if array.ndim else array[None],
    lambda array: array.T,
    lambda array: array[None],
    lambda array: array[..., None],
    lambda array: array.ravel(),
    lambda array: array[:1] if array.ndim else array[None],
]


def damaged_npy(content):
    """Draw other content of a `.npy` file."""
    return st.one_of(
        mangled([content], TOKENS),
        mangled([content], TOKENS),
        with_header(content),
        altered(unpacked(content)).map(packed),
    )
