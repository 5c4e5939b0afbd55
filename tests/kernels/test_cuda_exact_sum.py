"""Exact sums: the digits of Numba and of a GPU are the definition's, and all are the sum in rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

from kernels.exact_sum import DIGIT, LOWEST, definition, digits_of

TINY, HUGE = 5e-324, 1.7976931348623157e308
CASES = {
    "none": [],
    "zeros": [0.0, -0.0],
    "denormals": [TINY, -3 * TINY, 2.0**-1022, 2.0**-1022 - TINY],
    "the ends": [HUGE, HUGE, -HUGE, TINY, HUGE],
    "cancelling": [1e300, 1.0, -1e300, 2.0**-60, -1.0],
    "every place": [(-1) ** e * 1.7 * 2.0**e for e in range(-1074, 1023, 7)],
    "some": np.random.default_rng(3).normal(size=9).tolist(),
    "many": (np.random.default_rng(1).normal(size=700) * 10.0 ** np.random.default_rng(2).integers(-200, 200, 700)),
}

SMALL = ("the ends",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.big] * (name not in SMALL)) for name in CASES])
def test_digits_are_the_sum(gpu, name):
    values = np.array(CASES[name], np.float64)
    expected = definition.digits_of(values)
    total = sum(int(digit) << (DIGIT * i) for i, digit in enumerate(expected)) * Fraction(2) ** LOWEST
    assert total == sum(map(Fraction, values.tolist()))
    for place in (np.asarray, gpu.asarray):
        digits = digits_of(place(values))
        assert isinstance(digits, np.ndarray) and digits.dtype == np.int64 and np.array_equal(digits, expected)


@pytest.mark.big
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(gpu, bad):
    for place in (np.asarray, gpu.asarray):
        with pytest.raises(ValueError, match="finite"):
            digits_of(place(np.array([1.0, bad, 2.0])))


@pytest.mark.big
def test_the_host_waits_once(gpu, standin):
    values = gpu.ones(300)
    with standin.counting() as count:
        digits_of(values)
    assert [one.kind for one in count.all] == ["to_host"]
