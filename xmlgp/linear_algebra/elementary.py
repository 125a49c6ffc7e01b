"""Exponential, logarithm and softplus for compiled loops that use vector instructions.

The functions of NumPy have no vector version in compiled loops and take twenty times as long. All functions are
callable in compiled functions only.
"""

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["ARTANH_9", "ARTANH_11", "ARTANH_17", "exponential", "logarithm", "polynomial", "softplus"]

#: log 2 in two parts (Cody and Waite); small integer multiples of the first part are exact.
LOG2_HIGH = 0.693145751953125
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

#: The types of numbers and of their bits, the limit of exponents, so that e^x and e^−x are finite, bias and place of
#: the binary exponent, and coefficients.
SINGLE_EXP = np.float32, np.int32, 80.0, 127, 23, SINGLE_TAYLOR
DOUBLE_EXP = np.float64, np.int64, 700.0, 1023, 52, DOUBLE_TAYLOR

#: The same without the limit, with the bits of the mantissa and those of 1.
SINGLE_LOG = np.float32, np.int32, 127, 23, 0x7FFFFF, 0x3F800000, ARTANH_9
DOUBLE_LOG = np.float64, np.int64, 1023, 52, 0xFFFFFFFFFFFFF, 0x3FF0000000000000, ARTANH_17


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
    real, integer, limit, bias, shift, terms = SINGLE_EXP if x == types.float32 else DOUBLE_EXP

    def by_powers_of_two(x):
        x = min(max(x, real(-limit)), real(limit))
        k = np.floor(x * real(LOG2_INVERSE) + real(0.5))
        r = (x - k * real(LOG2_HIGH)) - k * real(LOG2_LOW)
        power = integer((integer(k) + integer(bias)) << integer(shift)).view(real)
        return polynomial(r, terms) * power

    return by_powers_of_two


@overload(logarithm)
def _logarithm(x):
    real, integer, bias, shift, mantissa, one, terms = SINGLE_LOG if x == types.float32 else DOUBLE_LOG

    def by_mantissa(x):
        bits = real(x).view(integer)
        k = integer(integer(bits >> integer(shift)) - integer(bias))
        y = integer((bits & integer(mantissa)) | integer(one)).view(real)
        large = y > real(SQRT2)
        y = y * real(0.5) if large else y
        k = integer(k + 1) if large else k
        q = (y - real(1)) / (y + real(1))
        return real(k) * real(LOG2_HIGH + LOG2_LOW) + real(2) * q * polynomial(q * q, terms)

    return by_mantissa


@overload(softplus)
def _softplus(x):
    real, terms = (np.float32, ARTANH_13) if x == types.float32 else (np.float64, ARTANH_25)

    def both(x):
        e = exponential(-abs(x))
        q = e / (real(2) + e)
        return max(x, real(0)) + real(2) * q * polynomial(q * q, terms)

    return both
