"""Batch normalisation: each version against the definition, bit for bit where the sums are exact."""

import math

import numpy as np
import pytest
from exact_images import integers

from kernels.arrays import to_numpy
from kernels.norm import channel_statistics, definition, normalize, normalize_backward

SHAPES = [(2, 2, 2, 3), (1, 4, 4, 5), (1, 8, 1, 1), (1, 1, 1, 5), (3, 5, 1, 3),
          *(pytest.param(shape, marks=pytest.mark.big)
            for shape in [(4, 2, 2, 3), (2, 4, 4, 17), (3, 5, 7, 3), (1, 1, 3, 16)])]


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    """Fewer parts than places on a GPU, and few lanes, so that both are walked in strides."""
    monkeypatch.setattr("kernels.norm.cuda.PARTS", 5)
    monkeypatch.setattr("kernels.norm.cuda.LANES", 2)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_versions_equal_the_definition_where_sums_are_exact(place, shape, dtype, relu):
    x, grad = integers(shape, dtype, 1, even=True), integers(shape, dtype, 2)
    scale, offset = np.random.default_rng(9).standard_normal((2, shape[3])).astype(dtype)
    mean, variance = definition.channel_statistics(x)
    y = definition.normalize(x, mean, variance, scale, offset, 1e-5, relu)
    expected = mean, variance, y, *definition.normalize_backward(grad, x, y, mean, variance, scale, 1e-5, relu)
    x, grad, y, mean, variance, scale, offset = map(place.asarray, (x, grad, y, mean, variance, scale, offset))
    result = (*channel_statistics(x), normalize(x, mean, variance, scale, offset, 1e-5, relu),
              *normalize_backward(grad, x, y, mean, variance, scale, 1e-5, relu))
    for ours, theirs in zip(result, expected, strict=True):
        assert np.array_equal(to_numpy(ours), theirs) and ours.dtype == theirs.dtype == dtype


@pytest.mark.big
@pytest.mark.parametrize("shape", [(5, 7, 9, 3), (1, 1, 3, 16), (5, 3, 1, 1)], ids=str)
def test_statistics_are_the_exact_ones_but_for_the_last_rounding(place, shape):
    """Sums of m float32 numbers in float64 are off by gamma(m) of their sizes; then one division, one rounding."""
    x = (10 + np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    for found in (definition.channel_statistics(x), channel_statistics(place.asarray(x))):
        mean, variance = map(to_numpy, found)
        m, u, wide = x.size // shape[3], 2.0**-24, 2.0**-53
        for c, column in enumerate(x.reshape(-1, shape[3]).T):
            exact, size = math.fsum(column.astype(float)) / m, math.fsum(np.abs(column).astype(float)) / m
            assert abs(mean[c] - exact) <= u * abs(exact) + 2 * (m + 2) * wide * size
            exact = math.fsum(((column - mean[c]) ** 2).astype(float)) / m
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


@pytest.mark.big
def test_a_nan_is_not_swallowed_by_relu(place):
    x, one, zero = np.array([[[[np.nan, -1.0]]]], np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)
    for version, xp in ((normalize, place), (definition.normalize, np)):
        y = to_numpy(version(*map(xp.asarray, (x, zero, one, one, zero)), 1e-5, relu=True))
        assert np.isnan(y[0, 0, 0, 0]) and y[0, 0, 0, 1] == 0


def test_refuses_images_without_places():
    with pytest.raises(ValueError, match="have no mean: leave an empty microbatch out"):
        channel_statistics(np.zeros((0, 3, 3, 2), np.float32))
