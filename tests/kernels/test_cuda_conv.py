"""Convolution on a GPU: the definition's numbers with zero tolerance, where sums are exact."""

import numpy as np
import pytest
from exact_images import convolution_of

from kernels.conv import convolve, convolve_backward, definition

CASES = [  # n, height, width, inputs, outputs, kernel, stride, padding
    (1, 2, 3, 2, 3, 3, 1, 1),
    (2, 3, 2, 1, 2, 3, 2, 1),
    (1, 1, 2, 1, 1, 3, 2, 1),
    (0, 5, 5, 3, 4, 3, 2, 1),
    (1, 3, 2, 2, 1, 1, 2, 0),
    *(pytest.param(case, marks=pytest.mark.big) for case in [
        (3, 7, 5, 3, 4, 3, 2, 1), (2, 8, 5, 3, 4, 1, 2, 0), (2, 5, 6, 3, 4, 3, 1, 0), (2, 2, 3, 3, 4, 3, 1, 2),
        (2, 1, 1, 2, 3, 3, 1, 4), (2, 5, 7, 3, 4, 5, 3, 2), (3, 7, 5, 17, 19, 3, 1, 1)]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gpu_equals_the_definition_where_sums_are_exact(gpu, case, dtype):
    x, weight, grad, y, stride, padding = convolution_of(case, dtype)
    expected = y, *definition.convolve_backward(grad, x, weight, stride, padding)
    x, weight, grad = map(gpu.asarray, (x, weight, grad))
    result = convolve(x, weight, stride, padding), *convolve_backward(grad, x, weight, stride, padding)
    for ours, theirs in zip(result, expected, strict=True):
        assert np.array_equal(ours.get(), theirs) and ours.dtype == theirs.dtype == dtype
    assert convolve_backward(grad, x, weight, stride, padding, input_gradient=False)[0] is None


def test_more_places_than_32_bits_number_are_refused(gpu):
    """None of these images has an element: it is their number alone."""
    with pytest.raises(ValueError, match="2147483648 images of 2 x 1 at once.*--microbatch-size"):
        convolve(gpu.empty((2**31, 2, 1, 0), np.float32), gpu.empty((1, 1, 0, 3), np.float32))
