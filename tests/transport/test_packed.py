"""Small arrays in one message: which travel together. That all arrive: test_communicator_mpi.py."""

import numpy as np
import pytest

from refimpl.transport.packed import SMALL, buffers, pack

SIZES = (3, SMALL // 8 - 3, 1, SMALL // 8, SMALL // 4, 5, 7)  # of float64: exactly full, over, alone


def test_as_many_as_fit_travel_together():
    alone = [np.zeros(size) for size in SIZES]
    assert [array.nbytes // 8 for _, array in pack([(1, a) for a in alone])] == \
        [SMALL // 8, 1, SMALL // 8, SMALL // 4, 12]
    (_, whole), = pack([(1, alone[0])])
    assert whole is alone[0]  # no copy of one that travels alone


def test_an_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        buffers([(0, np.zeros((4, 4))[:, :2]), (0, np.zeros(1))])
