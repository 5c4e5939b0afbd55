"""Rounding errors: exact references, the proved bound, and algorithms told apart; the report catches a wrong sum."""

from fractions import Fraction

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, make_schedule, prove
from refimpl.collectives.exactness import DATA, DTYPES, SCALE, contributions, errors, exactness, rounded, wholes
from refimpl.transport.machines import in_blocks


@pytest.mark.parametrize("dtype", DTYPES)
def test_wholes_are_exact_and_rounding_gives_them_back(dtype):
    info = np.finfo(dtype)
    least = info.smallest_subnormal
    values = np.array([0, -0.0, 1, -1.5, info.max, info.min, info.tiny, least, 3 * info.tiny / 4, 0.1], dtype)
    for value, whole in zip(values, wholes(values)):
        assert Fraction(whole) * Fraction(2) ** SCALE == Fraction(float(value))
        assert rounded(whole, dtype) == value


def test_sums_are_rounded_once_to_nearest_even():
    one = int(wholes(np.array([1.0]))[0])
    ulp = one >> 10  # of float16
    assert [rounded(one + ulp * n // 4, np.float16) for n in (1, 2, 3, 6)] == [1, 1, 1 + 2**-10, 1 + 2**-9]
    # a little over half: float64 would round it to the half first, and float16 then down to 1
    assert rounded(one + ulp // 2 + 1, np.float16) == 1 + 2**-10 and np.float16(1 + 2**-11) == 1
    least = int(wholes(np.array([5e-324]))[0])
    assert [rounded(least * n // 4, np.float64) for n in (1, 2, 3, 6)] == [0, 0, 5e-324, 1e-323]
    random = np.random.default_rng(0)
    for parts in random.standard_normal((200, 5)) * 2.0 ** random.integers(-60, 60, (200, 5)):
        assert rounded(sum(wholes(parts)), np.float64) == float(sum(Fraction(x) for x in parts))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_exceeds_its_bound(name, dtype):
    for ranks in (1, 2, 4, 8, 16) if name == "halving-doubling" else (1, 2, 3, 5, 8, 13):
        machines = in_blocks(ranks, 3) if name == "hierarchical" else None
        found = exactness(name, ranks, dtype, 101, machines=machines)
        assert found.agree and 0 <= found.largest_ratio <= 1 and found.depth <= max(0, ranks - 1)
        assert found.mean_ulp <= found.largest_ulp and (found.largest_ulp == 0) <= (ranks <= 3)
        assert found.largest_ulp <= 0 or ranks > 1


def test_depths_are_those_of_the_textbook():
    for ranks in range(1, 18):
        assert prove(make_schedule("ring", ranks, ranks)).depth == ranks - 1
        for name in ("direct", "binary-blocks", "binomial-tree"):
            assert prove(make_schedule(name, ranks, ranks)).depth == (ranks - 1).bit_length()
    assert prove(make_schedule("direct", 4, 4, "allgather")).depth == 0


def test_canonical_algorithms_err_alike_and_the_data_cancel():
    reports = {name: exactness(name, 8, machines=in_blocks(8, 4) if name == "hierarchical" else None)
               for name in ALGORITHMS}
    alike = {(r.largest_ulp, r.mean_ulp, r.largest_ratio) for r in reports.values() if r.canonical}
    assert len(alike) == 1 and (reports["ring"].largest_ulp, reports["ring"].mean_ulp) not in {a[:2] for a in alike}
    _, sums, magnitudes = contributions(8, "float32", 1001, 0)
    assert np.median((magnitudes / abs(sums)).astype(float)) > 8


def test_a_rings_mean_error_is_the_larger_one_on_any_data():
    for data in DATA:
        ring, tree = (exactness(name, 32, data=data) for name in ("ring", "direct"))
        assert 1.2 < ring.mean_error / tree.mean_error < 2.2 and ring.largest_ratio <= 1
    arrays, sums, _ = contributions(4, "float32", 50, 0, "positive")
    assert min(map(np.min, arrays)) >= 0 and (sums >= 0).all()


def test_a_wrong_sum_exceeds_the_bound():
    arrays, sums, magnitudes = contributions(4, "float32", 64, 0)
    total = np.array([rounded(whole, np.float32) for whole in sums], np.float32)
    ulps, ratios = errors(total, sums, magnitudes, 2)
    assert (ulps == 0).all() and ratios.max() < 1
    assert errors(np.nextafter(total, np.inf), sums, magnitudes, 2)[0].tolist() == [1.0] * 64
    assert errors(total - arrays[0], sums, magnitudes, 2)[1].min() > 1  # lost one contribution
    assert errors(total, sums, magnitudes, 0)[1].max() == np.inf  # without an addition nothing may be rounded


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="not int32: integers are summed exactly"):
        exactness("ring", 2, "int32")
    with pytest.raises(ValueError, match="no data 'large'; there are cancelling, normal, positive"):
        exactness("ring", 2, data="large")
    for ranks, elements in ((0, 1), (65, 1), (2, 0)):
        with pytest.raises(ValueError, match="wants 1 to 64 ranks and at least 1 element"):
            exactness("ring", ranks, elements=elements)
