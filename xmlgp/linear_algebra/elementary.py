"""Exponential, logarithm and softplus for compiled loops that use vector instructions.

The functions of NumPy have no vector version in compiled loops and take twenty times as long. All functions are
callable in compiled functions only.
"""

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["ARTANH_9", "ARTANH_11", "ARTANH_17", "exponential", "logarithm", "polynomial", "softplus"]

#: log 2 in two parts (Cody and Waite); small integer multiples of the first part are exact.
LOG2_HIGH, LOG2_LOW = 0.693145751953125, 1.42860682030941723212e-6

LOG2_INVERSE = 1.4426950408889634

#: Exponents are clipped to these, so that e^x and e^−x are finite in single and double precision.
SINGLE_LIMIT, DOUBLE_LIMIT = 80.0, 700.0

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


def polynomial(x, coefficients):
    """Return Σ_i c_i x^i in the precision of x, given a tuple of coefficients, the highest first."""


def exponential(x):
    """Return e^x, with x clipped to ±80 in single and ±700 in double precision.

    e^x = 2^k e^(x − k log 2), with a Taylor polynomial for the second factor. The relative error is at most 4e-7 in
    single and 1e-14 in double precision.
    """


def logarithm(x):
    """Return log x for a positive normal number x.

    log(2^k y) = k log 2 + 2 artanh((y − 1)/(y + 1)) with y near 1. The relative or the absolute error is at most 2e-7
    in single and 1e-13 in double precision.
    """


def softplus(x):
    """Return log(1 + e^x).

    It is max(x, 0) + 2 artanh(e/(2 + e)) with e = e^(−|x|). The relative error is at most 1e-6 in single and 1e-13 in
    double precision.
    """


@overload(polynomial)
def _polynomial(x, coefficients):
    real = np.float32 if x == types.float32 else np.float64

    def horner(x, coefficients):
        total = real(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total * x + real(coefficient)
        return total

    return horner


@overload(exponential)
def _exponential(x):
    if x == types.float32:

        def single(x):
            x = min(max(x, np.float32(-SINGLE_LIMIT)), np.float32(SINGLE_LIMIT))
            k = np.floor(x * np.float32(LOG2_INVERSE) + np.float32(0.5))
            r = (x - k * np.float32(LOG2_HIGH)) - k * np.float32(LOG2_LOW)
            power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
            return polynomial(r, SINGLE_TAYLOR) * power

        return single

    def double(x):
        x = min(max(x, -DOUBLE_LIMIT), DOUBLE_LIMIT)
        k = np.floor(x * LOG2_INVERSE + 0.5)
        r = (x - k * LOG2_HIGH) - k * LOG2_LOW
        return polynomial(r, DOUBLE_TAYLOR) * np.int64((np.int64(k) + 1023) << 52).view(np.float64)

    return double


@overload(logarithm)
def _logarithm(x):
    if x == types.float32:

        def single(x):
            bits = np.float32(x).view(np.int32)
            k = np.int32(np.int32(bits >> np.int32(23)) - np.int32(127))
            y = np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F800000)).view(np.float32)
            large = y > np.float32(SQRT2)
            y = y * np.float32(0.5) if large else y
            k = np.int32(k + 1) if large else k
            q = (y - np.float32(1)) / (y + np.float32(1))
            return np.float32(k) * np.float32(LOG2_HIGH + LOG2_LOW) + np.float32(2) * q * polynomial(q * q, ARTANH_9)

        return single

    def double(x):
        bits = np.float64(x).view(np.int64)
        k = (bits >> 52) - 1023
        y = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
        large = y > SQRT2
        y = y * 0.5 if large else y
        k = k + 1 if large else k
        q = (y - 1) / (y + 1)
        return k * (LOG2_HIGH + LOG2_LOW) + 2 * q * polynomial(q * q, ARTANH_17)

    return double


@overload(softplus)
def _softplus(x):
    real, terms = (np.float32, ARTANH_13) if x == types.float32 else (np.float64, ARTANH_25)

    def both(x):
        e = exponential(-abs(x))
        q = e / (real(2) + e)
        return max(x, real(0)) + real(2) * q * polynomial(q * q, terms)

    return both
