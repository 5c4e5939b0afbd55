"""16-bit floating point: nearest, ties to even, on every half; the kernels give the bits of the plain codec."""

import numpy as np
import pytest

from kernels import half
from refimpl.plain.encoding.codecs import Rounded


class Plain:
    """The plain codec with the kernels' signatures."""

    @staticmethod
    def encode(values, out):
        with np.errstate(over="ignore"):
            out[...] = Rounded("fp16" if out.dtype == np.float16 else "bf16").encode(values, 0, None)[0]

    @staticmethod
    def decode(half, out):
        out[...] = Rounded("fp16" if half.dtype == np.float16 else "bf16").decode((half,))


KINDS = pytest.mark.parametrize("dtype", half.KINDS.values(), ids=half.KINDS)
VERSIONS = Plain, half


def every(dtype):
    """Return every half that is not NaN, and what it stands for."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    values = np.empty(len(halves), np.float32)
    Plain.decode(halves, values)
    return halves[~np.isnan(values)], values[~np.isnan(values)]


@KINDS
def test_every_half_comes_back(dtype):
    halves, values = every(dtype)
    out, again = np.empty_like(halves), np.empty_like(values)
    for version in VERSIONS:
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
        for version in VERSIONS:
            for sign in (1, -1):
                out, again = np.empty(len(points), dtype), np.empty(len(points), np.float32)
                version.encode(sign * points, out)
                version.decode(out, again)
                assert (again[normal] == sign * expected[normal]).all()


@KINDS
def test_sums_are_the_exact_ones_rounded_once(dtype):
    halves, values = every(dtype)
    random = np.random.default_rng(0)
    left, right = (random.choice(np.flatnonzero(np.isfinite(values)), 20000) for _ in range(2))
    exact, found, rounded = halves[left].copy(), halves[left].copy(), halves[left].copy()
    Plain.encode((values[left].astype(np.float64) + values[right]).astype(np.float32), exact)
    half.add(found, halves[right])
    half.add(rounded, values[right])
    assert found.tobytes() == exact.tobytes() == rounded.tobytes()


@KINDS
def test_float32_is_rounded_before_it_is_added(dtype):
    values = (np.random.default_rng(1).standard_normal(5000) * 2.0 ** np.arange(-20, 20).repeat(125)).astype(np.float32)
    one, rounded = (np.empty(values.shape, dtype) for _ in range(2))
    half.encode(values[::-1].copy(), one)
    half.encode(values, rounded)
    two = one.copy()
    half.add(one, values)
    half.add(two, rounded)
    assert one.tobytes() == two.tobytes()
