"""Packed levels and signs: each version has the bytes of the definition, and what is no number stays visible."""

import numpy as np
import pytest

from kernels import levels

SIZES = 0, 1, 3, 7, 8, 9, 1001, 1024, 2050


def signs_of(version, values):
    packed, out = np.empty(-(-len(values) // 8), np.uint8), np.empty(len(values), np.float32)
    means = version.encode_signs(values, packed)
    version.look_up(packed, 1, means, out)
    return packed.tobytes(), means.tobytes(), out.tobytes()


def drawn(n, *more):
    """Return several (n,) float32 arrays; ``more`` numbers each fill one of them."""
    rng = np.random.default_rng(n)
    return [values.astype(np.float32) for values in (
        rng.standard_normal(n), rng.integers(-2, 3, n), *(np.full(n, number) for number in (-0.0, *more)))]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1001])
def test_fast_signs_are_the_definition(n):
    for values in drawn(n, -2.5, 1e30):
        assert signs_of(levels, values) == signs_of(levels.definition, values)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bits", range(1, 9))
def test_levels_are_the_definition(n, bits):
    rng = np.random.default_rng(n)
    drawn, table = rng.integers(0, 1 << bits, n).astype(np.uint8), rng.standard_normal(1 << bits).astype(np.float32)
    packed = np.empty(-(-n * bits // 8), np.uint8)
    levels.definition.pack(drawn, bits, packed)
    levels.definition.look_up(packed, bits, table, found := np.empty(n, np.float32))
    assert found.tobytes() == table[drawn].tobytes()
    out = np.empty(n + 1, np.float32)
    for first in (0, 1):  # aligned for wide numbers, and not
        levels.look_up(packed, bits, table, out[first:n + first])
        assert out[first:n + first].tobytes() == table[drawn].tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("s", [1, 2, 3, 4, 7, 15, 31, 60, 127])
def test_quantised_values_are_the_definition(n, s):
    for values in drawn(n, 1e-45, 3e38):
        norm = np.float32(np.abs(values).max(initial=0))  # so some have the highest level
        expected, packed = (np.empty(-(-n * (1 + s.bit_length()) // 8), np.uint8) for _ in range(2))
        levels.definition.quantise(values, s, norm, 7, expected)
        levels.quantise(values, s, norm, 7, packed)
        assert packed.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", SIZES)
def test_three_levels_are_the_definition(n):
    for values in drawn(n, 1e-45):
        for most in np.float32([0.5, 2.5, 0.0, np.nan][:3 + (n > 0)]):
            expected, packed = (np.empty(-(-n // 4), np.uint8) for _ in range(2))
            largest = levels.definition.three_levels(values, most, 7, expected)
            found = levels.three_levels(values, most, 7, packed)
            assert np.array_equal(found, largest, equal_nan=True) and packed.tobytes() == expected.tobytes()


@pytest.mark.parametrize("version", [levels, levels.definition], ids=["fast", "definition"])
def test_not_a_number_is_not_hidden(version):
    means = np.frombuffer(signs_of(version, np.array([1, np.nan, -2, 3], np.float32))[1], np.float32)
    assert np.isnan(means[0]) and means[1] == 2
