"""The exact sum agrees with math.fsum, to the bit, in every order and however it is split."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.gradients import ExactSum

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(finite, max_size=40), st.integers(0, 40))
def test_any_split_gives_the_correctly_rounded_sum(values, cut):
    left, right = ExactSum().add(values[:cut]), ExactSum().add(values[cut:])
    assert ExactSum(left.digits + right.digits).value() == math.fsum(values)


@pytest.mark.parametrize("value", [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1 / 3, -0.0,
                                   2.0**31])
def test_one_number_comes_back(value):
    assert ExactSum().add([value]).value() == value


def test_cancellation_is_exact():
    assert ExactSum().add([1e300, 1.0, -1e300, 1e-300]).value() == 1.0
    assert ExactSum().add(np.full(100_000, 0.1)).value() == math.fsum([0.1] * 100_000)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        ExactSum().add([1.0, bad])
