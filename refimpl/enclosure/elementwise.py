"""Elementwise operations on enclosures: exact on midpoints but for float64's rounding, errors grow by Lipschitz bounds.

Each takes and returns enclosures that broadcast against each other; ``namespace`` makes them of whatever is given.
"""

import numpy as np

from refimpl.enclosure.enclosure import Enclosure, Truth
from refimpl.enclosure.rounding import LEAST_SIGMOID, ULPS, UPWARDS, flushed, unit


def grown(middle, moved, error, dtype) -> Enclosure:
    """Return the enclosure of a result: its operands' errors moved it, and then it was rounded. Local.

    moved: largest change of each element by the operands' errors.  error: what rounding adds.
    What is infinite, whatever finite change its operands' errors make, is so on every device (a logit that does not
    count).
    """
    middle, radius = np.asarray(middle), np.asarray((moved + error) * UPWARDS)
    endless = np.isinf(middle) & np.isfinite(moved)
    return Enclosure(middle, np.where(endless, 0.0, radius) if endless.any() else radius, dtype)


def once(magnitude, dtype):
    """Return the error of rounding once. magnitude: the largest value that is rounded. Local."""
    return unit(dtype) * magnitude + flushed(magnitude, dtype)


def kept(middle, moved, dtype):
    """Return the error of an operation that keeps all digits: only what is too small for them is lost. Local."""
    least = np.abs(middle) - moved
    return np.where(least < np.finfo(dtype).smallest_normal, flushed(np.abs(middle) + moved, dtype), 0.0)


def between(low, high, dtype) -> Enclosure:
    """Return the smallest balls that hold [low, high]. Local."""
    with np.errstate(invalid="ignore"):
        middle = np.where(low == high, low, low + (high - low) / 2)
        radius = np.where(low == high, 0.0, np.maximum(high - middle, middle - low) * UPWARDS)
    return Enclosure(middle, radius, dtype)


def is_value(x, value):
    """Return where a ball is this very number. Local."""
    return (x.middle == value) & (x.radius == 0)


def keeps_digits(x):
    """Return where a product with x rounds no digit: x is 0 or a power of two, and nothing else. Local."""
    fraction = np.frexp(x.middle)[0]
    return ((np.abs(fraction) == 0.5) | (fraction == 0)) & (x.radius == 0)


def add(a, b, dtype):
    """Return a + b."""
    with np.errstate(invalid="ignore"):
        middle, moved = a.middle + b.middle, a.radius + b.radius
        error = np.where(is_value(a, 0) | is_value(b, 0), kept(middle, moved, dtype),
                         once(np.abs(middle) + moved, dtype))
    return grown(middle, moved, error, dtype)


def subtract(a, b, dtype):
    """Return a - b."""
    return add(a, negative(b), dtype)


def multiply(a, b, dtype):
    """|x y - a b| <= |a| |y - b| + |x - a| |y|."""
    middle, moved = a.middle * b.middle, np.abs(a.middle) * b.radius + a.radius * b.magnitude
    error = np.where(keeps_digits(a) | keeps_digits(b), kept(middle, moved, dtype),
                     once(np.abs(middle) + moved, dtype))
    return grown(middle, moved, error, dtype)


def square(a, dtype):
    """Return a * a, which is not negative (but for the rounding of a ball that reaches 0)."""
    product = multiply(a, a, dtype)
    below = product.lowest < 0
    if not below.any():
        return product
    return where(below, between(np.zeros(a.shape), product.highest, dtype), product, dtype)


def divide(a, b, dtype):
    """|x / y - a / b| <= (|x - a| + |a / b| |y - b|) / |y|; a divisor that may be 0 makes a ball without end."""
    least = np.abs(b.middle) - b.radius
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(least > 0, a.middle / b.middle, 0.0)
        moved = np.where(least > 0, (a.radius + np.abs(middle) * b.radius) / least, np.inf)
    return grown(middle, moved, once(np.abs(middle) + moved, dtype), dtype)


def negative(a):
    """Return -a: nothing rounds."""
    return Enclosure(-a.middle, a.radius.copy(), a.dtype)


def absolute(a):
    """||x| - |a|| <= |x - a|."""
    return Enclosure(np.abs(a.middle), a.radius.copy(), a.dtype)


def function(name, middle, moved, dtype):
    """Return a function's enclosure from that of its exact values: the library's error comes on top. Local."""
    factor = ULPS[name] * float(np.finfo(dtype).eps) + 2.0**-50  # float64's own function errs by a few of its ULPs
    magnitude = np.abs(middle) + moved
    return grown(middle, moved, factor * magnitude + flushed(magnitude, dtype), dtype)


def exp(a, dtype):
    """|e^x - e^a| <= e^a (e^r - 1)."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = np.exp(a.middle)
        moved = np.where(middle > 0, middle * np.expm1(a.radius), np.exp(a.highest))
    return function("exp", middle, moved, dtype)


def log(a, dtype):
    """|log x - log a| <= log(a / (a - r)) = log(1 + r / (a - r)); without end where x may be 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sure = a.middle > a.radius
        middle = np.where(sure, np.log(a.middle), 0.0)
        moved = np.where(sure, np.log1p(a.radius / (a.middle - a.radius)), np.inf)
    return function("log", middle, moved, dtype)


def tanh(a, dtype):
    """The slope, 1 - tanh^2, is largest where x is nearest to 0."""
    nearest = np.tanh(np.maximum(np.abs(a.middle) - a.radius, 0.0))
    return function("tanh", np.tanh(a.middle), a.radius * (1 - nearest * nearest + 2.0**-48), dtype)


def sigmoid(a, dtype):
    """1 / (1 + e^-x). The slope, s (1 - s), is largest where x is nearest to 0."""
    nearest = np.exp(-np.maximum(np.abs(a.middle) - a.radius, 0.0))
    small = np.exp(-np.abs(a.middle))
    middle = np.where(a.middle < 0, small, 1.0) / (1 + small)
    result = function("sigmoid", middle, a.radius * (nearest / (1 + nearest)**2 + 2.0**-50), dtype)
    result.radius += np.where(result.lowest < LEAST_SIGMOID, LEAST_SIGMOID, 0.0)
    return result


def sqrt(a, dtype):
    """|sqrt x - sqrt a| = |x - a| / (sqrt x + sqrt a); what may be 0 is taken from 0 on."""
    low, high = np.maximum(a.lowest, 0.0), np.maximum(a.highest, 0.0)
    root = np.sqrt(np.maximum(a.middle, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = a.radius / (root + np.sqrt(low))
    open_end = (low == 0) & (a.radius > 0)
    middle = np.where(open_end, np.sqrt(high) / 2, root)
    return function("sqrt", middle, np.where(open_end, middle, np.where(a.radius == 0, 0.0, moved)), dtype)


def maximum(a, b, dtype):
    """|max(x, y) - max(a, b)| <= max(|x - a|, |y - b|); exact where the larger one is known."""
    radius = np.where(a.lowest >= b.highest, a.radius,
                      np.where(b.lowest >= a.highest, b.radius, np.maximum(a.radius, b.radius)))
    return Enclosure(np.maximum(a.middle, b.middle), radius, dtype)


def where(condition, a, b, dtype):
    """Return a where the condition holds, b where it does not, and both where that is not known."""
    if isinstance(condition, Truth):
        decided, unknown = where(condition.surely, a, b, dtype), condition.maybe & ~condition.surely
        if not unknown.any():
            return decided
        both = between(np.minimum(a.lowest, b.lowest), np.maximum(a.highest, b.highest), dtype)
        return where(unknown, both, decided, dtype)
    return Enclosure(np.where(condition, a.middle, b.middle), np.where(condition, a.radius, b.radius), dtype)


def less(a, b) -> Truth:
    """Return where a < b surely holds, and where it may."""
    return Truth(a.highest < b.lowest, ~(a.lowest >= b.highest))  # NaN compares False: nothing is known of it
