"""Packed levels and signs: the fast version has the bits of the definition, and what is no number stays visible."""

import numpy as np
import pytest

from kernels import levels


def signs_of(version, values):
    packed, out = np.empty(-(-len(values) // 8), np.uint8), np.empty(len(values), np.float32)
    means = version.encode_signs(values, packed)
    version.look_up(packed, 1, means, out)
    return packed.tobytes(), means.tobytes(), out.tobytes()


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1001])
def test_fast_signs_are_the_definition(n):
    rng = np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.integers(-1, 2, n), np.full(n, -0.0), np.full(n, -2.5), np.full(n, 1e30)):
        values = values.astype(np.float32)
        assert signs_of(levels, values) == signs_of(levels.definition, values)


SIZES = (0, 1, 3, 7, 8, 9, 1001, 1024, 2050)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bits", range(1, 9))
def test_fast_levels_are_the_definition(n, bits):
    rng = np.random.default_rng(n)
    drawn, table = rng.integers(0, 1 << bits, n).astype(np.uint8), rng.standard_normal(1 << bits).astype(np.float32)
    packed = np.empty(-(-n * bits // 8), np.uint8)
    levels.definition.pack(drawn, bits, packed)
    for version in (levels, levels.definition):
        out = np.empty(n + 1, np.float32)
        for place in (0, 1):  # aligned for wide numbers, and not
            version.look_up(packed, bits, table, out[place:n + place])
            assert out[place:n + place].tobytes() == table[drawn].tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("s", [1, 2, 3, 4, 7, 15, 31, 60, 127])
def test_fast_quantised_values_are_the_definition(n, s):
    rng = np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.full(n, -0.0), np.full(n, 1e-45), np.full(n, 3e38)):
        values, found = values.astype(np.float32), []
        norm = np.float32(np.abs(values).max(initial=0))  # so some have the highest level
        for version in (levels, levels.definition):
            packed = np.empty(-(-n * (1 + s.bit_length()) // 8), np.uint8)
            version.quantise(values, s, norm, 7, packed)
            found.append(packed.tobytes())
        assert found[0] == found[1]


@pytest.mark.parametrize("n", SIZES)
def test_fast_three_levels_are_the_definition(n):
    rng = np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.full(n, -0.0), np.full(n, 1e-45)):
        for most in (0.5, 2.5, 0.0, np.nan)[:3 + (n > 0)]:
            found = []
            for version in (levels, levels.definition):
                packed = np.empty(-(-n // 4), np.uint8)
                largest = version.three_levels(values.astype(np.float32), np.float32(most), 7, packed)
                found.append((packed.tobytes(), np.float32(largest).tobytes()))
            assert found[0] == found[1]


@pytest.mark.parametrize("version", [levels, levels.definition], ids=["fast", "definition"])
def test_not_a_number_is_not_hidden(version):
    means = np.frombuffer(signs_of(version, np.array([1, np.nan, -2, 3], np.float32))[1], np.float32)
    assert np.isnan(means[0]) and means[1] == 2
