"""Images whose sums and products are exact in any order: inputs of the tests of convolution and normalisation."""

import numpy as np

from kernels.conv import definition


def integers(shape, dtype, seed, even=False):
    """Small integers: every sum of products, and every quarter that Winograd's transforms make, is exact.

    even: every channel, the last axis, sums to 0, so that deviations from its mean are integers too.
    """
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    if even:
        flat = values.reshape(-1, shape[3])
        half = len(flat) // 2
        flat[half : 2 * half] = -flat[:half]
        flat[2 * half :] = 0
    return values.astype(dtype)


def convolution_of(case, dtype):
    """Return (x, weight, gradient of y, y, stride, padding) of a case of the tests: eight numbers."""
    n, height, width, inputs, outputs, kernel, stride, padding = case
    x, weight = integers((n, height, width, inputs), dtype, 1), integers((kernel, kernel, inputs, outputs), dtype, 2)
    y = definition.convolve(x, weight, stride, padding)
    return x, weight, integers(y.shape, dtype, 3), y, stride, padding
