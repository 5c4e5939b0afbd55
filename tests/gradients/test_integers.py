"""Gradients as integers: the kernels give the bits of the plain codec, the expectation is exact, sums fit."""

import numpy as np
import pytest

from kernels import integers
from kernels.random import uniform
from refimpl.gradients.codecs.integers import WIDTHS, Integers
from refimpl.plain.encoding import codecs as plain_codecs

VALUES = (np.random.default_rng(0).standard_normal(5000) * 2.0 ** np.arange(-30, 20).repeat(100)).astype(np.float32)


@pytest.mark.parametrize("bits", WIDTHS)
def test_integers_are_those_of_the_plain_codec(bits):
    for largest in (np.abs(VALUES).max(), np.float32(1e-44), np.float32(3e38)):
        values = np.ldexp(VALUES / np.abs(VALUES).max(), 1) / 2 * largest
        plain, exponent = plain_codecs.Integers(bits, 8, largest), Integers(bits).exponent(largest, 8)
        expected = plain.encode(values, 0, uniform(7, len(values)))
        message, decoded = np.empty_like(expected[0]), np.empty(len(values), np.float32)
        integers.encode(values, exponent, 7, message)
        integers.decode(message, exponent, decoded)
        assert exponent == plain.exponent and message.tobytes() == expected[0].tobytes()
        assert decoded.tobytes() == plain.decode(expected).tobytes()
        assert np.abs(decoded - values.astype(np.float64)).max() <= np.ldexp(1.0, -exponent)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("microbatches", [1, 2, 3, 8, 60])
def test_as_many_microbatches_fit_as_there_are_and_no_bit_is_wasted(bits, microbatches):
    codec = Integers(bits)
    if (most := codec.most(microbatches)) >= 1:
        assert microbatches * (most + 1) <= 1 << bits - 1
        for largest in map(float, np.float32([1e-40, 0.3, 1.0, 1e30])):
            exponent = codec.exponent(largest, microbatches)
            assert np.ldexp(largest, exponent) <= most < np.ldexp(largest, exponent + 1)
