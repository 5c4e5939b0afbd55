"""Numbers at the edges of floating point: -0.0, denormals, inf and NaN, dense and by row."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.cases.dense import dense_case
from refimpl.conformance.cases.numbers import odd_part
from refimpl.conformance.cases.rows import rows_case

IDS = np.array([1, 4, 6], np.int64)


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    scale = [tiny * 840 * (r + 1) for r in range(ranks)]
    yield from _both("denormals", "numbers below the least normal one: none may be flushed to zero", ranks,
                     [np.array([s, -s, 3 * s], np.float32) for s in scale])
    zeros = [np.array([-0.0, -0.0 if r % 2 else 0.0, 840.0 * odd_part(ranks) * (r + 1)], np.float32)
             for r in range(ranks)]
    yield from _both("negative-zero", "-0.0 on some ranks or on all", ranks, zeros)
    for name, value in (("inf", np.inf), ("nan", np.nan)):
        bad = [np.array([840.0, value if r == ranks - 1 else 840.0, -840.0], np.float32) for r in range(ranks)]
        yield from _both(name, f"{value} on the last rank reaches every rank, or every rank refuses it", ranks, bad)


def _both(name, about, ranks, arrays):
    settings = {"nonfinite": True} if name in ("inf", "nan") else {}
    yield dense_case(name, about, ranks, lambda r, s: {"weight": arrays[r]}, settings=settings)
    yield rows_case(name, about, ranks, {"table": 8}, lambda r, s: {"table": Rows(IDS, np.stack([arrays[r]] * 3))},
                    settings=settings)
