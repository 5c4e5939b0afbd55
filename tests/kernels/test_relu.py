"""ReLU of a sum: the bits of two operations, signs of zeros and NaN among them."""

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.relu import add_relu

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
