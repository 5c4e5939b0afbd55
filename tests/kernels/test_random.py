"""Random numbers: known values of SplitMix64, the bits of each version, and the law of dropout."""

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.random import definition, dropout_scale, fast, key_of, random_bits, uniform

pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of unsigned integers, in the simulator
KEYS = [0, 5, 2**63, 2**64 - 1, key_of(1, "dropout", 7, 3)]


def test_splitmix64_of_seed_1234567_gives_the_published_values():
    # The check values of Rosetta Code's task "Pseudo-random numbers/Splitmix64".
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    published.append(16408922859458223821)
    assert random_bits(1234567, 5).tolist() == published


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("count, start", [(0, 0), (1, 3), (20, 2**40), pytest.param(1001, 3, marks=pytest.mark.big)])
def test_bits_and_numbers_hold_the_definition(place, key, start, count):
    assert random_bits(key, count, start).tobytes() == definition.random_bits(key, count, start).tobytes()
    numbers = uniform(key, count, start, place)
    assert numbers.dtype == np.float64 and np.array_equal(to_numpy(numbers), definition.uniform(key, count, start))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 7), (2, 3, 4), (), pytest.param((3, 11, 13), marks=pytest.mark.big)])
@pytest.mark.parametrize("keep", [1.0, 0.9, 0.5, 1e-9])
def test_dropout_holds_the_definition(place, shape, keep, dtype):
    if dtype == "float16" and (keep < 1e-4 or place is not np):
        pytest.skip("1/keep is infinite in float16, and no kernel on a GPU is of float16")
    scale = dropout_scale(11, shape, keep, dtype, place)
    assert scale.dtype == dtype and scale.shape == shape
    assert to_numpy(scale).tobytes() == definition.dropout_scale(11, shape, keep, dtype).tobytes()


def test_dropout_keeps_the_share_it_says_and_nothing_between():
    scale = dropout_scale(3, (1000, 100), 0.9, "float32")
    assert set(np.unique(scale)) == {np.float32(0), np.float32(1 / 0.9)}
    kept = np.count_nonzero(scale)
    assert abs(kept - 90_000) < 6 * np.sqrt(100_000 * 0.9 * 0.1)  # six standard deviations; the key is fixed
    assert np.count_nonzero(dropout_scale(3, (1000,), 1.0, "float32")) == 1000


def test_an_element_whose_bits_equal_the_threshold_is_dropped():
    first = int(random_bits(11, 1)[0]) >> 40
    for threshold, kept in ((first, 0), (first + 1, 1)):
        assert np.count_nonzero(dropout_scale(11, (1,), threshold / 2**24, "float32")) == kept
        assert np.count_nonzero(definition.dropout_scale(11, (1,), threshold / 2**24, "float32")) == kept


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.1, float("nan")])
def test_dropout_refuses_what_is_no_probability(keep):
    with pytest.raises(ValueError, match="keep"):
        dropout_scale(3, (4,), keep, "float32")


def test_keys_tell_their_parts_apart():
    parts = [(1, "a"), ("1", "a"), (1, "b"), (1, "a", 0), ("a", 1), (1, "a\x1f"), (-1, "a")]
    assert len({key_of(*p) for p in parts}) == len(parts)
    assert all(0 <= key_of(*p) < 2**64 for p in parts)


def test_fast_numbers_lie_in_the_unit_interval():
    numbers = fast.uniform(8, 10_000)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert np.array_equal(numbers * 2.0**53, np.floor(numbers * 2.0**53))


@pytest.mark.big
@pytest.mark.parametrize("first, columns", [(0, 12), (4, 4), (11, 1), (3, 0)])
def test_columns_of_a_dropout_are_those_of_the_whole(place, first, columns):
    whole = definition.dropout_scale(7, (5, 12), 0.6, "float32")
    assert whole.tobytes() == definition.dropout_scale(7, (60,), 0.6, "float32").tobytes()
    for version, xp in ((dropout_scale, place), (definition.dropout_scale, np)):
        part = to_numpy(version(7, (5, columns), 0.6, "float32", xp, first, 12))
        assert part.tobytes() == whole[:, first:first + columns].tobytes()
        assert version(7, (0, columns), 0.6, "float32", xp, first, 12).shape == (0, columns)
