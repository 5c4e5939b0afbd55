"""The rounding errors of an algorithm's sums on several kinds of data, compared with the proved bound.

If each contribution passes through at most h additions, in any order, then (Higham, Accuracy and Stability of Numerical
Algorithms, section 4.2)

    |computed - exact| <= gamma_h * sum of |x_r|,    gamma_h = h u / (1 - h u),    u = half an ULP of 1

and h is ceil(log2 N) for a balanced tree, N - 1 for a ring. The exact sums are computed with integers: every float64 is
a whole multiple of 2**-1126 (``wholes``), and so is every rounded sum. So errors are exact, too.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from refimpl.collectives.choose import make_schedule
from refimpl.collectives.local import run_local
from refimpl.collectives.prove import prove

DTYPES = ("float16", "float32", "float64")
DATA = ("cancelling", "normal", "positive")
"""Kinds of data, see ``contributions``."""
SCALE = -1126
"""Exponent of the unit of ``wholes``: frexp gives float64's least number the exponent -1073, and 53 bits follow."""
MOST_RANKS = 64
"""The most ranks with which cancelling data of float16 cannot overflow."""


@dataclass(frozen=True)
class Exactness:
    """Errors of an algorithm's sums of data of one kind on ``ranks`` ranks, with one contribution each.

    largest_ulp, mean_ulp: distance from the correctly rounded sum, in units of its last place. For cancelling data, a
    few sums near zero make up most of the mean.  mean_error: mean distance from the exact sum.
    largest_ratio: error over the bound gamma_depth Σ|x|; never above 1.  depth: the most additions that a contribution
    passes through.  agree: whether every rank has the same bits.
    """

    algorithm: str
    ranks: int
    dtype: str
    data: str
    elements: int
    canonical: bool
    depth: int
    largest_ulp: float
    mean_ulp: float
    mean_error: float
    largest_ratio: float
    agree: bool


def wholes(values) -> np.ndarray:
    """Return finite numbers as multiples of 2**-1126: an array of Python integers with their shape. Local."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    return digits.astype(object) << (exponent.astype(np.int64) - 53 - SCALE).astype(object)


def rounded(whole: int, dtype) -> float:
    """Return whole * 2**-1126, rounded once, to nearest even, to a number of ``dtype``. Local."""
    info = np.finfo(dtype)
    # bits that do not fit: beyond the mantissa, or below the least number (rounding to float64 first would round twice)
    drop = max(abs(whole).bit_length() - info.nmant - 1, info.minexp - info.nmant - SCALE)
    kept, rest = divmod(whole, 1 << drop)
    half = 1 << drop - 1
    kept += rest > half or (rest == half and kept & 1)
    return float(np.ldexp(float(kept), SCALE + drop))


@lru_cache(maxsize=16)
def contributions(ranks: int, dtype: str, elements: int, seed: int, data: str = "cancelling"):
    """Return (arrays, sums, magnitudes): data of each rank, their exact Σx and Σ|x| as ``wholes``. Local.

    positive: between 0 and 1.  normal: Gaussian.  cancelling: Gaussian, of many sizes; the last rank subtracts the sum
    of the others except for a part 2**-k, k = 0 to 5: half of float16's digits.
    """
    random, shape = np.random.default_rng((ranks, elements, seed)), (ranks, elements)
    values = random.random(shape) if data == "positive" else random.standard_normal(shape)
    if data == "cancelling":
        values = (values * 2.0 ** random.integers(-4, 5, shape)).astype(dtype).astype(np.float64)
        left = 2.0 ** -random.integers(0, 6, elements)
        if ranks > 1:
            values[-1] = -values[:-1].sum(0) * (1 - left)
    arrays = values.astype(dtype)
    arrays.flags.writeable = False
    exact = wholes(arrays)
    return list(arrays), exact.sum(0), abs(exact).sum(0)


def errors(computed, sums, magnitudes, depth: int):
    """Return (ulps, ratios) of computed sums, (n,) arrays: distance from the rounded sum, and |error| / bound.

    sums, magnitudes: exact Σx and Σ|x|, as ``wholes``.  Local.
    """
    dtype = computed.dtype
    nearest = np.array([rounded(whole, dtype) for whole in sums], np.float64).astype(dtype)
    found = wholes(computed)
    ulps = abs(found - wholes(nearest)) / wholes(np.spacing(abs(nearest)))
    one = 1 << np.finfo(dtype).nmant + 1  # 1 / u: gamma_h = h / (one - h)
    bounds, wrong = depth * magnitudes, abs(found - sums) * (one - depth)
    ratios = [float(w / b) if b else float("inf") if w else 0.0 for w, b in zip(wrong, bounds)]
    return ulps.astype(np.float64), np.array(ratios)


def exactness(algorithm: str, ranks: int, dtype: str = "float32", elements: int = 1001, seed: int = 0,
              machines=None, data: str = "cancelling") -> Exactness:
    """Run an algorithm on data of one kind and return its errors. machines: for hierarchical. Local.

    Raises ValueError for an unknown dtype or kind of data, too many ranks or elements, or as ``make_schedule`` does.
    """
    if dtype not in DTYPES:
        raise ValueError(f"exactness is for {', '.join(DTYPES)}, not {dtype}: integers are summed exactly")
    if data not in DATA:
        raise ValueError(f"exactness has no data {data!r}; there are {', '.join(DATA)}")
    if not (1 <= ranks <= MOST_RANKS and elements >= 1):
        raise ValueError(f"exactness wants 1 to {MOST_RANKS} ranks and at least 1 element, not {ranks} and {elements}")
    schedule = make_schedule(algorithm, ranks, ranks, machines=machines)
    proof = prove(schedule)
    arrays, sums, magnitudes = contributions(ranks, dtype, elements, seed, data)
    results = run_local(schedule, arrays, in_place=False)
    ulps, ratios = errors(results[0], sums, magnitudes, proof.depth)
    apart = Fraction(int(abs(wholes(results[0]) - sums).sum()), elements << -SCALE)
    return Exactness(
        schedule.name, ranks, dtype, data, elements, proof.canonical, proof.depth, float(ulps.max()),
        float(ulps.mean()), float(apart), float(ratios.max()), len({result.tobytes() for result in results}) == 1,
    )
