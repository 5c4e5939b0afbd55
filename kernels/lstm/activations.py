"""Sigmoid and tanh that LLVM can vectorise: they have no call, no branch and no table.

exp(x) = 2^n exp(r),  n = round(x / ln 2),  |r| <= ln(2) / 2.  In float32 exp(r) - 1 is a polynomial and 2^n is built
from bits. In float64 the C library's exp and tanh are used, which are slower, and exact to an ULP. NaN stays NaN (a
comparison with NaN is false, so no clamp changes it).
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from kernels.compiled import compiled

ROUND = np.float32(1.5 * 2**23)  # adding it rounds to an integer, in the low bits of the sum
LOG2E = np.float32(1 / math.log(2))
LN2_HIGH = np.float32(0.693359375)  # nine bits: its product with an integer below 2^15 is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
# (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2: Cephes expf (Moshier), relative error below 2^-26 of exp(r)
P0, P1, P2, P3, P4, P5 = (np.float32(p) for p in (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2,
                                                 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4))
ONE, TWO = np.float32(1), np.float32(2)
SIGMOID_LIMIT = np.float32(87.0)  # exp(87) and 1 / (1 + exp(87)) are normal numbers
TANH_LIMIT = np.float32(20.0)  # tanh(10) rounds to 1
EXPONENT_BIAS = np.int32(127)


@compiled
def reduced_exp(x):
    """Return (exp(r) - 1, 2^n) with exp(x) = 2^n exp(r). x: float32 in [-87, 87] or NaN."""
    shifted = np.float32(x * LOG2E + ROUND)
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = ((((P5 * r + P4) * r + P3) * r + P2) * r + P1) * r + P0
    power = np.int32((shifted.view(np.int32) + EXPONENT_BIAS) << np.int32(23)).view(np.float32)
    return p * (r * r) + r, power


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) inside a Numba kernel: float32 within SIGMOID_ULPS, or float64."""


def tanh(x):
    """Return tanh(x) inside a Numba kernel: float32 within TANH_ULPS, or float64."""


@overload(sigmoid)
def _sigmoid(x):
    def single(x):
        y = -x
        y = SIGMOID_LIMIT if y > SIGMOID_LIMIT else y
        y = -SIGMOID_LIMIT if y < -SIGMOID_LIMIT else y
        e, power = reduced_exp(y)
        return ONE / (ONE + (e * power + power))

    def double(x):
        small = math.exp(-abs(x))
        return (small if x < 0.0 else 1.0) / (1.0 + small)

    return single if x == types.float32 else double


@overload(tanh)
def _tanh(x):
    def single(x):
        y = abs(x) * TWO
        y = TANH_LIMIT if y > TANH_LIMIT else y
        e, power = reduced_exp(y)
        e = e * power + (power - ONE)  # exp(2|x|) - 1: for small x it is e itself, so nothing cancels
        return math.copysign(e / (e + TWO), x)

    def double(x):
        return math.tanh(x)

    return single if x == types.float32 else double
