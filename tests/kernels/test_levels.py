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


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1001])
@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8])
def test_fast_levels_are_the_definition(n, bits):
    rng, found = np.random.default_rng(n), []
    drawn, table = rng.integers(0, 1 << bits, n).astype(np.uint8), rng.standard_normal(1 << bits).astype(np.float32)
    for version in (levels, levels.definition):
        packed, out = np.empty(-(-n * bits // 8), np.uint8), np.empty(n, np.float32)
        version.pack(drawn, bits, packed)
        version.look_up(packed, bits, table, out)
        assert out.tobytes() == table[drawn].tobytes()
        found.append(packed.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("version", [levels, levels.definition], ids=["fast", "definition"])
def test_not_a_number_is_not_hidden(version):
    means = np.frombuffer(signs_of(version, np.array([1, np.nan, -2, 3], np.float32))[1], np.float32)
    assert np.isnan(means[0]) and means[1] == 2
