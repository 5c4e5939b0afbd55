"""The places of the largest elements: those of the plain codec, where many are equal, too."""

import numpy as np
import pytest

from kernels.largest import largest
from refimpl.plain.encoding.sparse_codecs import TopK


@pytest.mark.parametrize("n", [0, 1, 2, 7, 333, 2**13, 20011])
def test_places_are_those_of_the_plain_codec(n):
    rng = np.random.default_rng(n)
    drawn = [rng.standard_normal(n), rng.integers(-2, 3, n), np.zeros(n), np.full(n, -1.5), 10.0 ** rng.uniform(-45, 38, n),
             np.where(rng.random(n) < 0.5, 0, rng.standard_normal(n)), 1 + rng.integers(-3, 4, n) * 2.0**-23]
    for values in drawn:
        values = values.astype(np.float32)
        for count in sorted({0, 1, 2, n // 100, n // 3, n - 1, n}):
            if 0 <= count <= n:
                places = largest(values, count)
                assert places.dtype == np.int64 and np.array_equal(places, TopK(n, count).chosen(values, None))
        if n > 2:
            assert largest(values[::2], 1) == TopK(n, 1).chosen(values[::2], None)
