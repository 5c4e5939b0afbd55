"""Max pooling on a GPU: the definition's bits."""

import numpy as np
import pytest
from exact_images import integers

from kernels.pool import definition, max_pool, max_pool_backward

SHAPES = [(2, 4, 4, 3), (1, 5, 7, 2), (1, 2, 2, 1), (2, 3, 2, 4)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gpu_equals_the_definition(gpu, shape, dtype):
    x = integers(shape, dtype, 1)
    y = definition.max_pool(x)
    grad = np.random.default_rng(2).standard_normal(y.shape).astype(dtype)
    images = gpu.asarray(x)
    for ours, theirs in ((max_pool(images), y),
                         (max_pool_backward(gpu.asarray(grad), images), definition.max_pool_backward(grad, x))):
        assert np.array_equal(ours.get(), theirs) and ours.dtype == theirs.dtype == dtype


def test_a_nan_is_not_swallowed(gpu):
    x = np.zeros((4, 2, 2, 1), np.float32)
    x.reshape(4, 4)[range(4), range(4)] = np.nan
    assert np.isnan(max_pool(gpu.asarray(x)).get()).all()
