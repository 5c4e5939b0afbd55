"""Kernel functions of a support vector machine: K(x, z) for a sample x and each of many samples z.

    gaussian     exp(-γ |x - z|²)            linear    x · z            polynomial    (γ x · z + r)^d

Features are added up in their order. exp is computed with additions, multiplications and one division. So each value
depends only on x and z, not on the number of samples, their places or the C library.
"""

from typing import NamedTuple

import numpy as np

KINDS = ("gaussian", "linear", "polynomial")
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 6.93145751953125e-1, 1.42860682030941723212e-6
SHIFT, BIAS, LEAST = 1.5 * 2.0**52, 1023, -708.0
"""Adding SHIFT rounds to an integer, which then stands in the low bits. Below LEAST exp is taken for 0."""
P = 1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1
Q = 3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1, 2.0
"""exp(r) = 1 + 2 r P(r²) / (Q(r²) - r P(r²)) on |r| <= ln(2) / 2: Cephes (Moshier), within 1 ULP."""


class KernelFunction(NamedTuple):
    """A kernel function and its constants. gamma: γ, above 0.  constant: r.  degree: d, a whole number above 0."""

    kind: str = "gaussian"
    gamma: float = 1.0
    degree: int = 3
    constant: float = 0.0


def kernel_row(kernel: KernelFunction, x, rows):
    """Return K(x, z) for each row z: (width,) and (n, width) float64 -> (n,) float64. Local."""
    total = np.zeros(len(rows))
    if kernel.kind == "gaussian":
        for value, column in zip(x, rows.T):
            total += (column - value) * (column - value)
        return exponential(-kernel.gamma * total)
    for value, column in zip(x, rows.T):
        total += column * value
    return total if kernel.kind == "linear" else power(kernel.gamma * total + kernel.constant, kernel.degree)


def power(base, degree: int):
    """Return base^degree by ``degree`` - 1 multiplications."""
    result = base
    for _ in range(degree - 1):
        result = result * base
    return result


def exponential(x):
    """Return exp(x) for x <= 0: (n,) float64."""
    x = np.maximum(x, LEAST)
    shifted = x * LOG2E + SHIFT
    n = shifted - SHIFT
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    square = r * r
    p = r * ((P[0] * square + P[1]) * square + P[2])
    q = ((Q[0] * square + Q[1]) * square + Q[2]) * square + Q[3]
    scale = ((shifted.view(np.int64) + BIAS) << 52).view(np.float64)
    return np.where(x > LEAST, (1.0 + 2.0 * (p / (q - p))) * scale, 0.0)
