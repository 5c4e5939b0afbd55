"""ReLU of a sum, and its gradient: the bits of several operations, signs of zeros and NaN among them."""

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.relu import add_relu, relu_backward

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 3), (1, 2, 1, 17), (0, 2, 2, 3)], ids=str)
def test_equals_a_sum_and_a_maximum(place, shape, dtype, order):
    random = np.random.default_rng(4)
    x, shortcut, bias = (random.choice(SPECIAL, some).astype(dtype, order) for some in (shape, shape, shape[3:]))
    for added in (shortcut, bias):
        with np.errstate(invalid="ignore"):  # inf - inf
            expected = np.maximum(x + added, 0)
        found = to_numpy(add_relu(place.asarray(x.copy(order)), place.asarray(added)))
        assert np.array_equal(found, expected, equal_nan=True) and found.dtype == dtype
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 3), (1, 2, 1, 17), (2, 4, 4, 1)], ids=str)
def test_gradient_equals_a_product_and_a_sum(place, shape, dtype):
    random = np.random.default_rng(5)
    grad, y = (random.standard_normal(shape) * 10.0**random.integers(-9, 9, shape) for _ in range(2))
    grad, y = grad.astype(dtype), np.maximum(y, 0).astype(dtype)
    expected = grad * (y > 0)
    found, total = map(to_numpy, relu_backward(place.asarray(grad), place.asarray(y)))
    assert np.array_equal(found, expected) and np.array_equal(np.signbit(found), np.signbit(expected))
    assert np.array_equal(total, expected.sum(axis=(0, 1, 2), dtype="float64").astype(dtype))
    assert found.dtype == total.dtype == dtype
