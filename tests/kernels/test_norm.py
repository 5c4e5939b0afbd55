"""Batch normalisation: the fast version against the definition, bit for bit where the sums are exact."""

import math

import numpy as np
import pytest
from exact_images import integers

from kernels.norm import channel_statistics, definition, fast, normalize, normalize_backward

SHAPES = [(4, 2, 2, 3), (2, 4, 4, 17), (1, 8, 1, 1), (1, 1, 1, 5)]  # places: powers of two, so that means are exact
ODD_SHAPES = [(3, 5, 7, 3), (1, 1, 3, 16), (5, 3, 1, 1)]


def parameters(channels, dtype):
    rng = np.random.default_rng(9)
    return rng.standard_normal(channels).astype(dtype), rng.standard_normal(channels).astype(dtype)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES + ODD_SHAPES, ids=str)
def test_fast_equals_the_definition_where_sums_are_exact(shape, dtype, relu):
    x, grad = integers(shape, dtype, 1, even=True), integers(shape, dtype, 2)
    scale, offset = parameters(shape[3], dtype)
    statistics = definition.channel_statistics(x)
    y = definition.normalize(x, *statistics, scale, offset, 1e-5, relu)
    expected = *statistics, y, *definition.normalize_backward(grad, x, y, *statistics, scale, 1e-5, relu)
    result = (*fast.channel_statistics(x), fast.normalize(x, *statistics, scale, offset, 1e-5, relu),
              *fast.normalize_backward(grad, x, y, *statistics, scale, 1e-5, relu))
    assert all(np.array_equal(a, b) and a.dtype == b.dtype == dtype for a, b in zip(result, expected, strict=True))


@pytest.mark.parametrize("module", [definition, fast])
@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
def test_statistics_are_the_exact_ones_but_for_the_last_rounding(module, shape):
    """Sums of m float32 numbers in float64 are off by gamma(m) of their sizes; then one division, one rounding."""
    x = (10 + np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    mean, variance = module.channel_statistics(x)
    m, u, wide = x.size // shape[3], 2.0**-24, 2.0**-53
    for c, column in enumerate(x.reshape(-1, shape[3]).T):
        exact = math.fsum(column.astype(float)) / m
        size = math.fsum(np.abs(column).astype(float)) / m
        assert abs(mean[c] - exact) <= u * abs(exact) + 2 * (m + 2) * wide * size
        squares = ((column - mean[c]) ** 2).astype(float)
        exact = math.fsum(squares) / m
        assert abs(variance[c] - exact) <= u * exact + 2 * (m + 2) * wide * exact


def test_normalised_channels_have_mean_0_and_variance_1():
    x = (5 + 3 * np.random.default_rng(4).standard_normal((3, 5, 7, 2))).astype(np.float64)
    y = normalize(x, *channel_statistics(x), np.ones(2), np.zeros(2), 0.0)
    mean, variance = channel_statistics(y)
    # 105 places with sizes up to about 5: rounding is below 1e-14; a wrong divisor would show at 1e-2.
    assert np.all(np.abs(mean) < 1e-14) and np.all(np.abs(variance - 1) < 1e-13)


def test_a_single_place_has_variance_0_and_no_gradient():
    x, scale, offset = np.full((1, 1, 1, 2), 3.0), np.ones(2), np.array([1.0, -1.0])
    mean, variance = channel_statistics(x)
    assert np.array_equal(mean, [3, 3]) and np.array_equal(variance, [0, 0])
    y = normalize(x, mean, variance, scale, offset, 1e-5, relu=True)
    assert np.array_equal(y.ravel(), [1, 0])
    grad_x, grad_scale, grad_offset = normalize_backward(np.ones_like(x), x, y, mean, variance, scale, 1e-5, relu=True)
    assert not grad_x.any() and not grad_scale.any() and np.array_equal(grad_offset, [1, 0])


@pytest.mark.parametrize("module", [definition, fast])
def test_a_nan_is_not_swallowed_by_relu(module):
    x = np.ones((1, 2, 2, 2), np.float32)
    x[0, 0, 0, 1] = np.nan
    scale, offset = np.ones(2, np.float32), np.zeros(2, np.float32)
    y = module.normalize(x, *module.channel_statistics(x), scale, offset, 1e-5, True)
    assert np.isnan(y[..., 1]).all() and not np.isnan(y[..., 0]).any()


def test_refuses_images_without_places():
    with pytest.raises(ValueError, match="have no mean: leave an empty microbatch out"):
        channel_statistics(np.zeros((0, 3, 3, 2), np.float32))
