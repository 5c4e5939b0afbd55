"""Gradients as integers: the fast version holds the definition's bits, the expectation is exact, sums fit."""

import numpy as np
import pytest

from kernels import integers
from kernels.integers import definition, fast
from refimpl.gradients.codecs.integers import WIDTHS, Integers

VALUES = (np.random.default_rng(0).standard_normal(5000) * 2.0 ** np.arange(-30, 20).repeat(100)).astype(np.float32)


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_fast_version_holds_the_definition(bits):
    codec = Integers(bits)
    for largest in (np.abs(VALUES).max(), np.float32(1e-44), np.float32(3e38)):
        values = np.ldexp(VALUES / np.abs(VALUES).max(), 1) / 2 * largest
        exponent = codec.exponent(largest, 8)
        messages, decoded = ([np.empty(len(values), dtype) for _ in range(3)] for dtype in (codec.dtype, np.float32))
        for version, message, back in zip((definition, fast, integers), messages, decoded):
            version.encode(values, exponent, 7, message)
            version.decode(message, exponent, back)
        assert len({message.tobytes() for message in messages}) == len({back.tobytes() for back in decoded}) == 1
        step = np.ldexp(1.0, -exponent)
        assert np.abs(decoded[0] - values.astype(np.float64)).max() <= step


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("microbatches", [1, 2, 3, 8, 60])
def test_as_many_microbatches_fit_as_there_are_and_no_bit_is_wasted(bits, microbatches):
    codec = Integers(bits)
    if (most := codec.most(microbatches)) >= 1:
        assert microbatches * (most + 1) <= 1 << bits - 1
        for largest in map(float, np.float32([1e-40, 0.3, 1.0, 1e30])):
            exponent = codec.exponent(largest, microbatches)
            assert np.ldexp(largest, exponent) <= most < np.ldexp(largest, exponent + 1)
