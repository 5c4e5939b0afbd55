"""Packed levels on a GPU have the bytes of the definition."""

import numpy as np
import pytest

from kernels import levels

pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of unsigned integers, in the simulator
SIZES = (0, 1, 8, 37)


def drawn(n):
    rng = np.random.default_rng(n)
    return [values.astype(np.float32) for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.zeros(n))]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("s", [1, 4, 7, 127])
def test_quantised_values_hold_the_definition(gpu, n, s):
    for values in drawn(n):
        norm, bits = np.float32(np.abs(values).max(initial=0)), 1 + s.bit_length()
        expected, packed = np.empty(-(-n * bits // 8), np.uint8), gpu.empty(-(-n * bits // 8), np.uint8)
        levels.definition.quantise(values, s, norm, 7, expected)
        levels.quantise(gpu.asarray(values), s, norm, 7, packed)
        assert packed.get().tobytes() == expected.tobytes()
        table, out = np.random.default_rng(s).standard_normal(1 << bits).astype(np.float32), gpu.empty(n, np.float32)
        whole = np.empty(n, np.float32)
        levels.look_up(packed, bits, table, out)
        levels.definition.look_up(expected, bits, table, whole)
        assert out.get().tobytes() == whole.tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("most", [0.5, 2.5, 0.0])
def test_three_levels_hold_the_definition(gpu, n, most):
    for values in drawn(n):
        expected, packed = np.empty(-(-n // 4), np.uint8), gpu.empty(-(-n // 4), np.uint8)
        largest = levels.definition.three_levels(values, np.float32(most), 7, expected)
        assert levels.three_levels(gpu.asarray(values), np.float32(most), 7, packed) == largest
        assert packed.get().tobytes() == expected.tobytes()
