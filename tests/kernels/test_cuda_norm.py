"""Batch normalisation on a GPU: the definition's bits where sums are exact, else all but their last rounding."""

import math

import numpy as np
import pytest
from exact_images import integers

from kernels.norm import channel_statistics, definition, normalize, normalize_backward

SHAPES = [(2, 2, 2, 3), (1, 4, 4, 5), (1, 8, 1, 1), (1, 1, 1, 5), (3, 5, 1, 3)]


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    """Fewer parts than places, and few lanes, so that both are walked in strides."""
    monkeypatch.setattr("kernels.norm.cuda.PARTS", 5)
    monkeypatch.setattr("kernels.norm.cuda.LANES", 2)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gpu_equals_the_definition_where_sums_are_exact(gpu, shape, dtype, relu):
    x, grad = integers(shape, dtype, 1, even=True), integers(shape, dtype, 2)
    scale, offset = np.random.default_rng(9).standard_normal((2, shape[3])).astype(dtype)
    mean, variance = definition.channel_statistics(x)
    y = definition.normalize(x, mean, variance, scale, offset, 1e-5, relu)
    expected = mean, variance, y, *definition.normalize_backward(grad, x, y, mean, variance, scale, 1e-5, relu)
    x, grad, y, mean, variance, scale, offset = map(gpu.asarray, (x, grad, y, mean, variance, scale, offset))
    result = (*channel_statistics(x), normalize(x, mean, variance, scale, offset, 1e-5, relu),
              *normalize_backward(grad, x, y, mean, variance, scale, 1e-5, relu))
    for ours, theirs in zip(result, expected, strict=True):
        assert np.array_equal(ours.get(), theirs) and ours.dtype == theirs.dtype == dtype


@pytest.mark.big
def test_statistics_are_the_exact_ones_but_for_the_last_rounding(gpu):
    x = (10 + np.random.default_rng(3).standard_normal((5, 7, 9, 3))).astype(np.float32)
    mean, variance = (one.get() for one in channel_statistics(gpu.asarray(x)))
    m, u, wide = x.size // 3, 2.0**-24, 2.0**-53
    for c, column in enumerate(x.reshape(-1, 3).T):
        exact = math.fsum(column.astype(float)) / m
        assert abs(mean[c] - exact) <= u * abs(exact) + 2 * (m + 2) * wide * math.fsum(abs(column).astype(float)) / m
        exact = math.fsum(((column - mean[c]) ** 2).astype(float)) / m
        assert abs(variance[c] - exact) <= u * exact + 2 * (m + 2) * wide * exact


@pytest.mark.big
def test_a_nan_is_not_swallowed_by_relu(gpu):
    x, one = gpu.asarray(np.array([[[[np.nan, -1.0]]]], np.float32)), gpu.ones(2, np.float32)
    y = normalize(x, gpu.zeros(2, np.float32), one, one, gpu.zeros(2, np.float32), 1e-5, relu=True).get()
    assert np.isnan(y[0, 0, 0, 0]) and y[0, 0, 0, 1] == 0
