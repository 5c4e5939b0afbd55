"""Max pooling: each version against the definition, bit for bit; ties, odd sides, NaN; PyTorch's."""

import numpy as np
import pytest
from exact_images import integers

from kernels.arrays import to_numpy
from kernels.pool import definition, max_pool, max_pool_backward

SHAPES = [(2, 4, 4, 3), (1, 5, 7, 2), (1, 2, 2, 1), (2, 3, 2, 4),
          *(pytest.param(shape, marks=pytest.mark.big) for shape in [(3, 5, 7, 17), (1, 9, 8, 5), (0, 4, 4, 2)])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_versions_equal_the_definition(place, shape, dtype):
    x = integers(shape, dtype, 1)  # few values: many windows have several largest
    y = definition.max_pool(x)
    grad = np.random.default_rng(2).standard_normal(y.shape).astype(dtype)
    expected = y, definition.max_pool_backward(grad, x)
    for images in (place.asarray(x), place.asarray(np.asfortranarray(x))):
        for ours, theirs in zip((max_pool(images), max_pool_backward(place.asarray(grad), images)), expected):
            assert np.array_equal(to_numpy(ours), theirs) and ours.dtype == theirs.dtype == dtype


@pytest.mark.parametrize("version", [definition.max_pool_backward, max_pool_backward])
def test_the_gradient_goes_to_the_first_of_the_largest(version):
    windows = [[1, 1, 1, 1], [0, 2, 2, 1], [0, 1, 2, 2], [0, 1, 1, 3]]
    x = np.array(windows, np.float32).reshape(4, 2, 2, 1)
    assert np.array_equal(version(np.full((4, 1, 1, 1), 5, np.float32), x).reshape(4, 4), 5 * np.eye(4))


def test_a_nan_is_not_swallowed(place):
    x = np.zeros((4, 2, 2, 1), np.float32)
    x.reshape(4, 4)[range(4), range(4)] = np.nan
    assert np.isnan(definition.max_pool(x)).all() and np.isnan(to_numpy(max_pool(place.asarray(x)))).all()


@pytest.mark.parametrize("shape", [(3, 5, 7, 17), (1, 9, 8, 5)], ids=str)
def test_pytorchs(shape):
    torch = pytest.importorskip("torch")
    x = integers(shape, "float32", 1)
    images = torch.tensor(x, requires_grad=True)
    theirs = torch.nn.functional.max_pool2d(images.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    grad = np.random.default_rng(2).standard_normal(theirs.shape).astype(np.float32)
    theirs.backward(torch.tensor(grad))
    assert np.array_equal(max_pool(x), theirs.detach()) and np.array_equal(max_pool_backward(grad, x), images.grad)


def test_refuses_what_has_no_window():
    for shape in ((1, 1, 4, 2), (4, 4, 2)):
        with pytest.raises(ValueError, match="no window of 2 x 2"):
            max_pool(np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=r"give it the shape \(1, 2, 2, 1\)"):
        max_pool_backward(np.zeros((1, 3, 2, 1)), np.zeros((1, 5, 4, 1)))
