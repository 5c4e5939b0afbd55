"""Random numbers on a GPU are the numbers of the definition, whatever part of a sequence is asked for."""

import numpy as np
import pytest

from kernels.random import definition, dropout_scale, key_of, uniform

pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of unsigned integers, in the simulator


@pytest.mark.parametrize("key", [0, 2**64 - 1, key_of("a key")])
@pytest.mark.parametrize("count, start", [(0, 0), (1, 0), (37, 5), (20, 2**40)])
def test_numbers_hold_the_definition(gpu, key, count, start):
    numbers = uniform(key, count, start, gpu)
    assert numbers.dtype == np.float64 and np.array_equal(numbers.get(), definition.uniform(key, count, start))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, keep", [((3, 7), 0.9), ((0, 2), 0.5), ((40,), 2.0**-3), ((2, 3, 4), 1)])
def test_dropout_holds_the_definition(gpu, shape, keep, dtype):
    ours, expected = (dropout_scale(5, shape, keep, dtype, xp) for xp in (gpu, np))
    assert ours.shape == shape and ours.dtype == dtype and ours.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("first, columns", [(0, 7), (2, 3), (6, 1), (1, 0)])
def test_columns_of_a_dropout_hold_the_definition(gpu, first, columns):
    ours, expected = (dropout_scale(5, (4, columns), 0.7, "float32", xp, first, 7) for xp in (gpu, np))
    assert ours.get().tobytes() == expected.tobytes()
