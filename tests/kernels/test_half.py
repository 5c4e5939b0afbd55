"""16-bit floating point: nearest, ties to even, on every half; the fast version holds the definition's bits."""

import numpy as np
import pytest

from kernels import half
from kernels.half import definition, fast

KINDS = pytest.mark.parametrize("dtype", [np.uint16, np.float16], ids=["bf16", "fp16"])


def every(dtype):
    """Return every half that is not NaN, and what it stands for."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    values = np.empty(len(halves), np.float32)
    definition.decode(halves, values)
    return halves[~np.isnan(values)], values[~np.isnan(values)]


@KINDS
def test_every_half_comes_back(dtype):
    halves, values = every(dtype)
    out, again = np.empty_like(halves), np.empty_like(values)
    for version in (definition, fast, half):
        version.encode(values, out)
        version.decode(out, again)
        assert out.tobytes() == halves.tobytes() and again.tobytes() == values.tobytes()


@KINDS
def test_what_lies_between_goes_to_the_nearest_and_in_the_middle_to_the_even(dtype):
    halves, values = every(dtype)
    finite = np.sort(values[np.isfinite(values) & (values >= 0)])
    low, high = finite[1:-1].astype(np.float64), finite[2:].astype(np.float64)
    middle = ((low + high) / 2).astype(np.float32)
    known = dict(zip(values.tolist(), halves.view(np.uint16).tolist()))
    below, above = (np.nextafter(middle, np.float32(end)) for end in (0, np.inf))
    even = np.where([known[x] % 2 == 0 for x in low.tolist()], low, high)
    for points, expected in ((below, low), (above, high), (middle, even)):
        normal = low >= 2.0 ** -126  # below, float32's own steps are as wide as bf16's half steps
        for version in (definition, fast):
            for sign in (1, -1):
                out, again = np.empty(len(points), dtype), np.empty(len(points), np.float32)
                version.encode(sign * points, out)
                version.decode(out, again)
                assert (again[normal] == sign * expected[normal]).all()


@KINDS
def test_fast_sums_hold_the_definition_and_the_exact_sum(dtype):
    halves, values = every(dtype)
    finite = np.isfinite(values)
    random = np.random.default_rng(0)
    left, right = (random.choice(np.flatnonzero(finite), 20000) for _ in range(2))
    expected, found, rounded = halves[left].copy(), halves[left].copy(), halves[left].copy()
    definition.add(expected, halves[right])
    fast.add(found, halves[right])
    half.add(rounded, values[right])
    assert found.tobytes() == expected.tobytes() == rounded.tobytes()
    exact = np.empty_like(expected)
    definition.encode((values[left].astype(np.float64) + values[right]).astype(np.float32), exact)
    assert exact.tobytes() == expected.tobytes()


@KINDS
def test_float32_is_rounded_before_it_is_added(dtype):
    values = (np.random.default_rng(1).standard_normal(5000) * 2.0 ** np.arange(-20, 20).repeat(125)).astype(np.float32)
    into, rounded = (np.empty(values.shape, dtype) for _ in range(2))
    definition.encode(values[::-1].copy(), into)
    definition.encode(values, rounded)
    for add in (definition.add, fast.add):
        with np.errstate(over="ignore"):
            one, two = into.copy(), into.copy()
            add(one, values)
            add(two, rounded)
        assert one.tobytes() == two.tobytes()
