"""Packed levels and signs: the kernels have the bytes of the plain codecs, and what is no number stays visible."""

import numpy as np
import pytest

from kernels import levels
from kernels.random import uniform
from refimpl.plain.encoding.level_codecs import QSGD, LevelCodec, OneBit, TernGrad

SIZES = 0, 1, 3, 7, 8, 9, 1001, 1024, 2050


def signs_of(values):
    packed, out = np.empty(-(-len(values) // 8), np.uint8), np.empty(len(values), np.float32)
    means = levels.encode_signs(values, packed)
    levels.look_up(packed, 1, means, out)
    return packed, means, out


def drawn(n, *more):
    """Return several (n,) float32 arrays; ``more`` numbers each fill one of them."""
    rng = np.random.default_rng(n)
    return [values.astype(np.float32) for values in (
        rng.standard_normal(n), rng.integers(-2, 3, n), *(np.full(n, number) for number in (-0.0, *more)))]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1001])
def test_signs_are_those_of_the_plain_codec(n):
    for values in drawn(n, -2.5, 1e30):
        codec, (packed, means, out) = OneBit(n), signs_of(values)
        message = codec.encode(values, np.float32(-0.0), None)  # -0 adds nothing, not even to another -0
        assert (packed.tobytes(), means.tobytes()) == tuple(part.tobytes() for part in message)
        assert out.tobytes() == codec.decode(message).tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bits", range(1, 9))
def test_levels_are_looked_up(n, bits):
    rng = np.random.default_rng(n)
    drawn, table = rng.integers(0, 1 << bits, n).astype(np.uint8), rng.standard_normal(1 << bits).astype(np.float32)
    packed = LevelCodec(n, bits).pack(drawn)
    out = np.empty(n + 1, np.float32)
    for first in (0, 1):  # aligned for wide numbers, and not
        levels.look_up(packed, bits, table, out[first:n + first])
        assert out[first:n + first].tobytes() == table[drawn].tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("s", [1, 2, 3, 4, 7, 15, 31, 60, 127])
def test_quantised_values_are_those_of_the_plain_codec(n, s):
    for values in drawn(n, 1e-45, 3e38):
        with np.errstate(over="ignore"):
            expected, (norm,) = QSGD(n, s).encode(values, 0, uniform(7, n))
        packed = np.empty(len(expected), np.uint8)
        levels.quantise(values, s, norm, 7, packed)
        assert packed.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", SIZES)
def test_three_levels_are_those_of_the_plain_codec(n):
    for values in drawn(n, 1e-45):
        for clip in (0.5, 2.5, 0.0, np.nan):
            with np.errstate(invalid="ignore"):
                expected, (largest,) = TernGrad(n, clip).encode(values, 0, uniform(7, n))
            packed, most = np.empty(len(expected), np.uint8), np.float32(clip * values.std(dtype=np.float64) if n else 0)
            found = levels.three_levels(values, most, 7, packed)
            assert np.array_equal(found, largest, equal_nan=True) and packed.tobytes() == expected.tobytes()


def test_not_a_number_is_not_hidden():
    _, means, _ = signs_of(np.array([1, np.nan, -2, 3], np.float32))
    assert np.isnan(means[0]) and means[1] == 2
