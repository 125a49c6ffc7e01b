"""Exponential, logarithm and softplus for compiled loops that use vector instructions.

The functions of NumPy have no vector version in compiled loops and take twenty times as long. Only compiled functions
can call those of this module.
"""

from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["ARTANH_9", "ARTANH_11", "ARTANH_17", "exponential", "logarithm", "polynomial", "softplus"]

#: The high digits of log 2, of which small integer multiples are exact (Cody and Waite).
LOG2_HIGH = 0.693145751953125

#: log 2 less the high digits.
LOG2_LOW = 1.42860682030941723212e-6

LOG2_INVERSE = 1.4426950408889634

SQRT2 = 1.4142135623730951

#: Coefficients 1/n! of e^x, the highest first, for single and double precision.
SINGLE_TAYLOR = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
DOUBLE_TAYLOR = (1 / 479001600, 1 / 39916800, 1 / 3628800, 1 / 362880, 1 / 40320, *SINGLE_TAYLOR)

#: Coefficients of artanh(q)/q in q², the highest first.
ARTANH_9 = (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
ARTANH_11 = (1 / 11, *ARTANH_9)
ARTANH_13 = (1 / 13, *ARTANH_11)
ARTANH_17 = (1 / 17, 1 / 15, *ARTANH_13)
ARTANH_25 = (1 / 25, 1 / 23, 1 / 21, 1 / 19, *ARTANH_17)

#: For e^x: the types of numbers and of their bits, the largest |x|, at which e^x and e^−x are finite, the bias and the
#: lowest bit of the binary exponent, and the coefficients.
SINGLE_EXP = np.float32, np.int32, 80.0, 127, 23, SINGLE_TAYLOR
DOUBLE_EXP = np.float64, np.int64, 700.0, 1023, 52, DOUBLE_TAYLOR

#: For log x: the types of numbers and of their bits, the bias and the lowest bit of the binary exponent, the bits of
#: the mantissa, the bits of the number 1, and the coefficients.
SINGLE_LOG = np.float32, np.int32, 127, 23, 0x7FFFFF, 0x3F800000, ARTANH_9
DOUBLE_LOG = np.float64, np.int64, 1023, 52, 0xFFFFFFFFFFFFF, 0x3FF0000000000000, ARTANH_17


def polynomial(x: float, coefficients: tuple[float, ...]) -> float:
    """Return Σ_i c_i x^i in the precision of x, given a tuple of coefficients, the highest first."""
    raise NotImplementedError


def exponential(x: float) -> float:
    """Return e^x, with x clipped to ±80 in single and ±700 in double precision.

    e^x = 2^k e^(x − k log 2), with a Taylor polynomial for the second factor. The relative error is at most 4e-7 in
    single and 1e-14 in double precision.
    """
    raise NotImplementedError


def logarithm(x: float) -> float:
    """Return log x for a positive normal number x.

    log(2^k y) = k log 2 + 2 artanh((y − 1)/(y + 1)) with y near 1. The relative or the absolute error is at most 2e-7
    in single and 1e-13 in double precision.
    """
    raise NotImplementedError


def softplus(x: float) -> float:
    """Return log(1 + e^x).

    It is max(x, 0) + 2 artanh(e/(2 + e)) with e = e^(−|x|). The relative error is at most 1e-6 in single and 1e-13 in
    double precision.
    """
    raise NotImplementedError


def _is_single(x: object) -> bool:
    return bool(x == types.float32)


# Numba passes types to these functions, but demands the annotations of those that they return.
@overload(polynomial)
def _polynomial(x: float, coefficients: tuple[float, ...]) -> Callable[[float, tuple[float, ...]], float]:
    real = np.float32 if _is_single(x) else np.float64

    def horner(x: float, coefficients: tuple[float, ...]) -> float:
        total: float = real(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + real(coefficient)
        return total

    return horner


@overload(exponential)
def _exponential(x: float) -> Callable[[float], float]:
    real, integer, limit, bias, shift, terms = SINGLE_EXP if _is_single(x) else DOUBLE_EXP

    def by_powers_of_two(x: float) -> float:
        x = min(max(x, real(-limit)), real(limit))
        k = np.floor(x * real(LOG2_INVERSE) + real(0.5))
        r = (x - k * real(LOG2_HIGH)) - k * real(LOG2_LOW)
        power = integer((integer(k) + integer(bias)) << integer(shift)).view(real)
        result: float = polynomial(r, terms) * power
        return result

    return by_powers_of_two


@overload(logarithm)
def _logarithm(x: float) -> Callable[[float], float]:
    real, integer, bias, shift, mantissa, one, terms = SINGLE_LOG if _is_single(x) else DOUBLE_LOG

    def by_mantissa(x: float) -> float:
        bits = real(x).view(integer)
        k = integer(integer(bits >> integer(shift)) - integer(bias))
        y = integer((bits & integer(mantissa)) | integer(one)).view(real)
        large = y > real(SQRT2)
        y = y * real(0.5) if large else y
        k = integer(k + 1) if large else k
        q = (y - real(1)) / (y + real(1))
        result: float = real(k) * real(LOG2_HIGH + LOG2_LOW) + real(2) * q * polynomial(q * q, terms)
        return result

    return by_mantissa


@overload(softplus)
def _softplus(x: float) -> Callable[[float], float]:
    real, terms = (np.float32, ARTANH_13) if _is_single(x) else (np.float64, ARTANH_25)

    def by_artanh(x: float) -> float:
        e = exponential(-abs(x))
        q = e / (real(2) + e)
        result: float = max(x, real(0)) + real(2) * q * polynomial(q * q, terms)
        return result

    return by_artanh
