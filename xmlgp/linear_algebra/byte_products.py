"""Sums of products of 8-bit integers, with the instruction of processors that have one for four of them at a time.

Matrices are rounded to integers of eight bits, a row at a time. One operand is stored in tiles of `GROUP` rows as bytes
128 above its integers, because the instruction multiplies integers without sign by integers with sign. Sums of products
are exact: they do not depend on the processor, on the order of sums, or on what else is multiplied.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["GROUP", "HIGHEST", "OFFSET", "POINTS", "QUAD", "add_byte_rows", "add_byte_tile", "place_in_row"]

#: Rows of a tile, and points that are multiplied by it together: their sums fill the registers.
GROUP = 64
POINTS = 6

#: Largest absolute value of an integer, and what is added to those of the operand in tiles.
HIGHEST = 127
OFFSET = 128

#: Sums of a register, and integers whose products each of them takes at a time.
LANES = 16
QUAD = 4

#: The instruction, by LLVM's name, and the feature of processors that have it.
DOT = "llvm.x86.avx512.vpdpbusd.512"
FEATURES = ("avx512f", "avx512bw", "avx512vnni")

# Numba has no types of its own for these.
_functions: Any = cgutils
_types: Any = types

INT8 = ir.IntType(8)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
BYTES = ir.VectorType(INT8, LANES * QUAD)
SUMS = ir.VectorType(INT32, LANES)


@functools.cache
def has_instruction() -> bool:
    """Return whether the processor for which Numba compiles has the instruction."""
    # Numba may have been told to compile for another processor.
    if any(getattr(config, name, None) for name in ("CPU_NAME", "CPU_FEATURES")):
        return False
    features = llvmlite.binding.get_host_cpu_features()
    return all(features.get(name, False) for name in FEATURES)


def _dot(builder: Any, sums: Any, unsigned: Any, signed: Any) -> Any:
    """Return sums with the products of four bytes each added."""
    if has_instruction():
        function = _functions.get_or_insert_function(builder.module, ir.FunctionType(SUMS, [SUMS] * 3), DOT)
        return builder.call(function, [sums, builder.bitcast(unsigned, SUMS), builder.bitcast(signed, SUMS)])
    shorts = ir.VectorType(ir.IntType(16), LANES * QUAD)
    wide = ir.VectorType(INT32, LANES * QUAD)
    left = builder.sext(builder.zext(unsigned, shorts), wide)
    right = builder.sext(builder.sext(signed, shorts), wide)
    products = builder.mul(left, right)
    for width in (LANES * 2, LANES):
        even, odd = (
            builder.shuffle_vector(
                products, ir.Constant(products.type, ir.Undefined), _mask(range(first, 2 * width, 2))
            )
            for first in (0, 1)
        )
        products = builder.add(even, odd)
    return builder.add(sums, products)


def _mask(lanes: Any) -> Any:
    return ir.Constant(ir.VectorType(INT32, len(lanes)), list(lanes))


def _load(builder: Any, base: Any, offset: Any, kind: Any, align: int) -> Any:
    address = builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())
    value = builder.load(address)
    value.align = align
    return value


def _store(builder: Any, value: Any, base: Any, offset: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(base, [offset]), value.type.as_pointer())).align = 4


def _broadcast(builder: Any, word: Any) -> Any:
    undefined = ir.Constant(SUMS, ir.Undefined)
    vector = builder.insert_element(undefined, word, INT32(0))
    return builder.bitcast(builder.shuffle_vector(vector, undefined, _mask([0] * LANES)), BYTES)


_intrinsic: Any = intrinsic


@_intrinsic  # type: ignore[untyped-decorator, unused-ignore]  # of Numba
def _add_tile(typing_context: Any, tile: Any, points: Any, sums: Any, steps: Any, strides: Any) -> Any:
    """Add the products of a tile and of some points, at these addresses, to sums.

    The tile has `steps` times 64 rows of four bytes; the points, and the rows of sums, are `strides` bytes apart.
    """
    pair = _types.UniTuple(_types.intp, 2)
    signature = _types.void(_types.intp, _types.intp, _types.intp, _types.intp, pair)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = [builder.inttoptr(address, INT8.as_pointer()) for address in arguments[:3]]
        point_stride, sum_stride = (builder.extract_value(arguments[4], position) for position in (0, 1))
        count = GROUP // LANES
        places = [
            [builder.add(builder.mul(sum_stride, INT64(i)), INT64(4 * LANES * v)) for v in range(count)]
            for i in range(POINTS)
        ]
        kept = [[_functions.alloca_once(builder, SUMS) for _ in range(count)] for _ in range(POINTS)]
        for i in range(POINTS):
            for v in range(count):
                builder.store(_load(builder, base[2], places[i][v], SUMS, 4), kept[i][v])
        with _functions.for_range(builder, arguments[3]) as loop:
            start = builder.mul(loop.index, INT64(GROUP * QUAD))
            rows = [
                _load(builder, base[0], builder.add(start, INT64(LANES * QUAD * v)), BYTES, 1) for v in range(count)
            ]
            for i in range(POINTS):
                offset = builder.add(builder.mul(point_stride, INT64(i)), builder.mul(loop.index, INT64(QUAD)))
                point = _broadcast(builder, _load(builder, base[1], offset, INT32, 4))
                for v in range(count):
                    builder.store(_dot(builder, builder.load(kept[i][v]), rows[v], point), kept[i][v])
        for i in range(POINTS):
            for v in range(count):
                _store(builder, builder.load(kept[i][v]), base[2], places[i][v])
        return context.get_dummy_value()

    return signature, generate


@_intrinsic  # type: ignore[untyped-decorator, unused-ignore]  # of Numba
def _add_rows(typing_context: Any, rows: Any, stride: Any, chosen: Any, sums: Any) -> Any:
    """Add products of 64 bytes of some rows, `stride` bytes apart, with an integer each to 64 sums, at these addresses.

    `chosen` are the addresses of the int32 numbers of the rows and of their integers, and the number of fours of them.
    """
    signature = _types.void(_types.intp, _types.intp, _types.UniTuple(_types.intp, 3), _types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, sums = (builder.inttoptr(arguments[position], INT8.as_pointer()) for position in (0, 3))
        numbers, values, count = (builder.extract_value(arguments[2], position) for position in range(3))
        numbers, values = (builder.inttoptr(address, INT8.as_pointer()) for address in (numbers, values))
        kept = [_functions.alloca_once(builder, SUMS) for _ in range(GROUP // LANES)]
        for v, register in enumerate(kept):
            builder.store(_load(builder, sums, INT64(4 * LANES * v), SUMS, 4), register)
        with _functions.for_range(builder, count) as loop:
            start = builder.mul(loop.index, INT64(4 * QUAD))
            read = []
            for q in range(QUAD):
                number = _load(builder, numbers, builder.add(start, INT64(4 * q)), INT32, 4)
                read.append(_load(builder, rows, builder.mul(builder.sext(number, INT64), arguments[1]), BYTES, 1))
            word = _load(builder, values, builder.mul(loop.index, INT64(QUAD)), INT32, 1)
            point = _broadcast(builder, word)
            for register, fours in zip(kept, _interleaved(builder, read), strict=True):
                builder.store(_dot(builder, builder.load(register), fours, point), register)
        for v, register in enumerate(kept):
            _store(builder, builder.load(register), sums, INT64(4 * LANES * v))
        return context.get_dummy_value()

    return signature, generate


def _interleaved(builder: Any, rows: Any) -> Any:
    """Return four vectors with the bytes of four rows beside each other, in the order of `place_in_row`."""
    size = LANES * QUAD
    pairs = [_unpacked(builder, rows[q], rows[q + 1], size) for q in (0, 2)]
    halves = ir.VectorType(ir.IntType(16), size // 2)
    vectors = []
    for low_or_high in range(2):
        first, second = (builder.bitcast(pair[low_or_high], halves) for pair in pairs)
        vectors += _unpacked(builder, first, second, size // 2)
    return [builder.bitcast(vector, BYTES) for vector in vectors]


def _unpacked(builder: Any, first: Any, second: Any, size: int) -> Any:
    """Return the elements of two vectors in turn, those of the lower and of the upper halves of each 16 bytes."""
    lane = size // 4
    results = []
    for half in range(2):
        mask = []
        for start in range(0, size, lane):
            for j in range(lane // 2):
                position = start + half * (lane // 2) + j
                mask += [position, size + position]
        results.append(builder.shuffle_vector(first, second, _mask(mask)))
    return results


@compiled
def place_in_row(j: int) -> int:
    """Return where `add_byte_rows` has the byte for the j-th of 64 sums."""
    vector = j // 16
    lane = j % 16 // 4
    return 16 * lane + 4 * vector + j % 4


@compiled
def add_byte_tile(tile: NDArray[np.uint8], points: NDArray[np.int8], sums: NDArray[np.int32]) -> None:
    """Add the products of a tile, S×64×4, with six points, 6×4S, to their sums, 6×64.

    The sums also get 128 times the sum of a point's integers.
    """
    strides = (points.strides[0], sums.strides[0])
    _add_tile(tile.ctypes.data, points.ctypes.data, sums.ctypes.data, tile.shape[0], strides)


@compiled
def add_byte_rows(
    rows: NDArray[np.uint8], first: int, numbers: NDArray[np.int32], values: NDArray[np.int8], sums: NDArray[np.int32]
) -> None:
    """Add to 64 sums the products of bytes from `first` on of some rows with an integer each, a multiple of four rows.

    The sums also get 128 times the sum of the integers. The order of bytes is that of `place_in_row`.
    """
    chosen = (numbers.ctypes.data, values.ctypes.data, numbers.size // 4)
    _add_rows(rows.ctypes.data + first, rows.strides[0], chosen, sums.ctypes.data)
