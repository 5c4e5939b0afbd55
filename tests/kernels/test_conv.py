"""Convolution: the definition against its formula, each version against the definition with zero tolerance.

What versions may round is held to a proved bound in tests/enclosure.
"""

import itertools

import numpy as np
import pytest
from exact_images import convolution_of, integers

from kernels.arrays import to_numpy
from kernels.conv import convolve, convolve_backward, definition, fast, patches, winograd
from kernels.conv.kernel_tiles import kernel_gradient, kernel_tiles

CASES = [  # n, height, width, inputs, outputs, kernel, stride, padding
    (3, 7, 5, 17, 19, 3, 1, 1),
    (3, 7, 5, 3, 4, 3, 2, 1),
    (2, 4, 4, 16, 16, 3, 1, 1),
    (1, 1, 1, 16, 18, 3, 1, 1),
    (2, 2, 9, 20, 16, 3, 1, 1),
    (2, 6, 5, 3, 4, 3, 1, 1),
    (2, 8, 5, 3, 4, 1, 2, 0),
    (2, 3, 5, 4, 3, 1, 1, 0),
    (2, 5, 6, 3, 4, 3, 1, 0),
    (2, 2, 3, 3, 4, 3, 1, 2),
    (2, 1, 1, 2, 3, 3, 1, 4),
    (2, 5, 7, 3, 4, 5, 3, 2),
    (1, 2, 3, 2, 3, 3, 1, 1),
    (2, 3, 2, 1, 2, 3, 2, 1),
    (1, 1, 2, 1, 1, 3, 2, 1),
    (0, 5, 5, 16, 16, 3, 1, 1),
    (0, 5, 5, 3, 4, 3, 2, 1),
    (1, 3, 2, 2, 1, 1, 2, 0),
]
FEW = 12
"""From here on, cases are small enough for Numba's simulator."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.big] * (number < FEW))
                                  for number, case in enumerate(CASES)], ids=str)
def test_versions_equal_the_definition_where_sums_are_exact(place, case, dtype):
    x, weight, grad, y, stride, padding = convolution_of(case, dtype)
    expected = y, *definition.convolve_backward(grad, x, weight, stride, padding)
    x, weight, grad = map(place.asarray, (x, weight, grad))
    result = convolve(x, weight, stride, padding), *convolve_backward(grad, x, weight, stride, padding)
    assert all(np.array_equal(to_numpy(a), b) and a.dtype == b.dtype == dtype
               for a, b in zip(result, expected, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_paths_equal_the_definition_where_the_other_is_faster_too(case, dtype):
    x, weight, grad, y, stride, padding = convolution_of(case, dtype)
    expected = y, *definition.convolve_backward(grad, x, weight, stride, padding)
    results = [(patches.convolve(x, weight, stride, padding),
                *patches.convolve_backward(grad, x, weight, stride, padding))]
    if (weight.shape[0], stride, padding) == (3, 1, 1):
        results.append((winograd.convolve(x, weight), winograd.convolve(grad, weight, turned=True),
                        winograd.weight_gradient(grad, x)))
    for result in results:
        assert all(np.array_equal(a, b) and a.dtype == b.dtype == dtype for a, b in zip(result, expected, strict=True))


def test_more_places_than_32_bits_number_are_refused(gpu):
    """None of these images has an element: it is their number alone."""
    with pytest.raises(ValueError, match="2147483648 images of 2 x 1 at once.*--microbatch-size"):
        convolve(gpu.empty((2**31, 2, 1, 0), np.float32), gpu.empty((1, 1, 0, 3), np.float32))


def test_winograds_algorithm_takes_what_it_is_faster_at():
    def taken(height, width, inputs, outputs, kernel=3, stride=1, padding=1):
        x, weight = np.empty((2, height, width, inputs)), np.empty((kernel, kernel, inputs, outputs))
        return fast.uses_winograd(x, weight, stride, padding)

    assert taken(32, 32, 64, 64) and taken(4, 4, 2, 2)
    assert not any([taken(28, 28, 1, 16), taken(2, 8, 64, 64), taken(8, 8, 4, 4, kernel=1, padding=0),
                    taken(8, 8, 4, 4, stride=2), taken(8, 8, 4, 4, padding=0)])


@pytest.mark.parametrize("case", [CASES[0], CASES[1]], ids=str)
def test_blocks_do_not_change_an_exact_result(case, monkeypatch):
    x, weight, grad, y, stride, padding = convolution_of(case, "float32")
    expected = definition.convolve_backward(grad, x, weight, stride, padding)
    monkeypatch.setattr(winograd, "BLOCK_BYTES", 1)
    monkeypatch.setattr(patches, "BLOCK_BYTES", 1)
    assert np.array_equal(convolve(x, weight, stride, padding), y)
    result = convolve_backward(grad, x, weight, stride, padding)
    assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))


@pytest.mark.parametrize(
    "case", [(2, 3, 4, 2, 3, 3, 2, 1), (1, 4, 3, 2, 2, 3, 1, 1), (1, 3, 3, 2, 2, 1, 2, 0)], ids=str)
def test_definition_is_its_formula(case):
    x, weight, _, y, stride, padding = convolution_of(case, "float64")
    n, height, width, outputs = y.shape
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    for image, i, j, o in itertools.product(range(n), range(height), range(width), range(outputs)):
        total = 0.0
        for a, b, c in np.ndindex(weight.shape[:3]):
            total += padded[image, stride * i + a, stride * j + b, c] * weight[a, b, c, o]
        assert y[image, i, j, o] == total


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_the_transposes_of_the_convolution(case):
    """conv is linear in x and in weight, so <grad, conv(x, w)> = <x', x> = <w', w>, for other x and w as well."""
    x, weight, grad, y, stride, padding = convolution_of(case, "float64")
    grad_x, grad_weight = definition.convolve_backward(grad, x, weight, stride, padding)
    other_x, other_weight = integers(x.shape, "float64", 4), integers(weight.shape, "float64", 5)
    assert np.vdot(grad, definition.convolve(other_x, weight, stride, padding)) == np.vdot(grad_x, other_x)
    assert np.vdot(grad, definition.convolve(x, other_weight, stride, padding)) == np.vdot(grad_weight, other_weight)


@pytest.mark.big
def test_the_first_layer_can_leave_its_input_gradient_out(place):
    for case in (CASES[0], CASES[1]):
        *arrays, _, stride, padding = convolution_of(case, "float32")
        assert definition.convolve_backward(arrays[2], *arrays[:2], stride, padding, False)[0] is None
        x, weight, grad = map(place.asarray, arrays)
        grad_x, grad_weight = convolve_backward(grad, x, weight, stride, padding, input_gradient=False)
        assert grad_x is None
        assert (grad_weight == convolve_backward(grad, x, weight, stride, padding)[1]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inputs, outputs", [(2, 3), (17, 19), (16, 64), (33, 65)])
def test_the_kernels_transforms_are_products_with_g(dtype, inputs, outputs):
    """To the bit: each sum has three terms, of which only those of a row (1/2, 1/2, 1/2) round, from left to right."""
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], dtype)
    rng = np.random.default_rng(1)
    weight, total = (rng.standard_normal(s).astype(dtype) for s in ((3, 3, inputs, outputs), (16, inputs, outputs)))

    def along(matrix, values, axis):
        values = np.moveaxis(values, axis, 0)
        terms = [[factor * value for factor, value in zip(row, values)] for row in matrix]
        return np.moveaxis(np.stack([sum(row[1:], row[0]) for row in terms]), 0, axis)

    for turned, kernel in ((False, weight), (True, weight[::-1, ::-1].swapaxes(2, 3))):
        tiles = np.empty((16, *kernel.shape[2:]), dtype)
        kernel_tiles(weight, turned, tiles)
        assert np.array_equal(tiles, along(g, along(g, kernel, 0), 1).reshape(tiles.shape))
    grad = np.empty_like(weight)
    kernel_gradient(total, grad)
    assert np.array_equal(grad, along(g.T, along(g.T, total.reshape(4, 4, inputs, outputs), 0), 1))


@pytest.mark.parametrize("channels, stride", [(16, 1), (5, 2)])
def test_bits_depend_on_values_alone_not_on_addresses_or_strides(channels, stride):
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(s).astype(np.float32) for s in ((3, 9, 7, channels), (3, 3, channels, channels)))
    grad = rng.standard_normal(convolve(x, weight, stride).shape).astype(np.float32)
    expected = [convolve(x, weight, stride), *convolve_backward(grad, x, weight, stride)]
    for moved in (displaced, transposed):
        x2, weight2, grad2 = (moved(a) for a in (x, weight, grad))
        result = [convolve(x2, weight2, stride), *convolve_backward(grad2, x2, weight2, stride)]
        assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))


def displaced(a):
    """Return a copy of ``a`` that starts 4 bytes off any larger alignment."""
    space = np.empty(a.size + 33, a.dtype)
    offset = next(i for i in range(33) if (space[i:].ctypes.data // a.itemsize) % 16 == 1)
    space[offset : offset + a.size] = a.ravel()
    return space[offset : offset + a.size].reshape(a.shape)


def transposed(a):
    """Return the values of ``a`` with the memory order of its axes reversed."""
    return np.asfortranarray(a)


def test_default_padding_keeps_the_size_at_stride_1():
    x = np.ones((1, 5, 4, 2), np.float32)
    for kernel in (1, 3, 5):
        assert convolve(x, np.ones((kernel, kernel, 2, 3), np.float32)).shape == (1, 5, 4, 3)


X, W = np.zeros((2, 5, 5, 3), np.float32), np.zeros((3, 3, 3, 4), np.float32)


@pytest.mark.parametrize("arguments, message", [
    ((X[0], W), "takes images"),
    ((X, W[:2]), "not square"),
    ((X[..., :2], W), "images have 2 channels, the kernel takes 3"),
    ((X, W.astype(np.float64)), "float32', 'float64"),
    ((X.astype(np.int32), W.astype(np.int32)), "one float dtype"),
    ((X, W, 0), "stride 0"),
    ((X, W, 1, -1), "padding -1"),
    ((X[:, :2], W, 1, 0), "smaller than the kernel"),
])
def test_refuses_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        convolve(*arguments)


def test_refuses_a_gradient_of_another_shape():
    with pytest.raises(ValueError, match=r"shape \(2, 4, 5, 4\), the convolution's result has \(2, 5, 5, 4\)"):
        convolve_backward(np.zeros((2, 4, 5, 4), np.float32), X, W)
