"""Max pooling: the fast version against the definition, bit for bit; ties, odd sides, NaN; PyTorch's."""

import numpy as np
import pytest
from exact_images import integers

from kernels.pool import definition, fast, max_pool, max_pool_backward

SHAPES = [(2, 4, 4, 3), (3, 5, 7, 17), (1, 2, 2, 1), (2, 3, 2, 16), (1, 9, 8, 5), (0, 4, 4, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fast_equals_the_definition(shape, dtype):
    x = integers(shape, dtype, 1)  # few values: many windows have several largest
    y = definition.max_pool(x)
    grad = np.random.default_rng(2).standard_normal(y.shape).astype(dtype)
    for images in (x, np.asfortranarray(x)):
        for ours, theirs in ((fast.max_pool(images), y),
                             (fast.max_pool_backward(grad, images), definition.max_pool_backward(grad, x))):
            assert np.array_equal(ours, theirs) and ours.dtype == theirs.dtype == dtype


@pytest.mark.parametrize("module", [definition, fast])
def test_the_gradient_goes_to_the_first_of_the_largest(module):
    windows = [[1, 1, 1, 1], [0, 2, 2, 1], [0, 1, 2, 2], [0, 1, 1, 3]]
    x = np.array(windows, np.float32).reshape(4, 2, 2, 1)
    found = module.max_pool_backward(np.full((4, 1, 1, 1), 5, np.float32), x).reshape(4, 4)
    assert np.array_equal(found, 5 * np.eye(4))


@pytest.mark.parametrize("module", [definition, fast])
def test_a_nan_is_not_swallowed(module):
    for place in range(4):
        x = np.zeros((1, 2, 2, 1), np.float32)
        x.reshape(-1)[place] = np.nan
        assert np.isnan(module.max_pool(x)).all()


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
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
