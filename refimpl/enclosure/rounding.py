"""How far one operation on a device may be from exact: what every enclosure grows by.

Sums and products of n terms, in any order, with or without fused multiply-add, in the dtype or in a finer one:
|computed - exact| <= gamma_n * sum |terms|,  gamma_n = n u / (1 - n u),  u = half an ULP of 1     (Higham 2002, 4.2)

Elementary functions: ULPS, the largest of what is published or derived for each library; only the compiled cell's is
proved. CUDA: C++ Programming Guide, table "Single-Precision Mathematical Standard Library Functions
with Maximum ULP Error" (expf 2, logf 1, tanhf 2; addition, product, division, square root rounded once without fast
math; it says itself that these come from extensive, not exhaustive tests). NumPy: expf 2.52, logf 3.83 (its pull
request 13134), others below 4 (SVML's bound). Our compiled sigmoid and tanh: derived in tests/kernels/test_lstm.py.

A result below the smallest normal number may be flushed to zero.
"""

import numpy as np

ULPS = {"exp": 3.0, "log": 4.0, "tanh": 4.0, "sigmoid": 6.0, "sqrt": 0.5}
"""Name -> largest error of the result in ULPs, float32 and float64 alike."""

LEAST_SIGMOID = 2.0**-125
"""Our compiled sigmoid of float32 is sigmoid(-87), less than this, for anything below -87 (``activations``)."""

MOST_TERMS = 2**20
UPWARDS = 1 + 2.0**-30
"""Radii are sums of products of positive float64 numbers, at most MOST_TERMS of them: rounding moves them by less."""


def unit(dtype) -> float:
    """Return u, with what float64 may add in forming the midpoint: that rounds, too, but 2**29 times finer. Local."""
    return float(np.finfo(dtype).eps) / 2 + 2.0**-52


def gamma(terms: int, dtype) -> float:
    """Return gamma_n. Raises ValueError for more terms than radii are made for. Local."""
    if terms > MOST_TERMS:
        raise ValueError(f"a sum of {terms} terms: enclosures are made for at most {MOST_TERMS}")
    return terms * unit(dtype) / (1 - terms * unit(dtype))


def flushed(magnitude, dtype, terms: int = 1):
    """Return what ``terms`` results too small for a normal number may lose; nothing where all is 0. Local."""
    return terms * float(np.finfo(dtype).smallest_normal) * (magnitude > 0)
