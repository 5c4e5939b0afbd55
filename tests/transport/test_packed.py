"""Small arrays in one message: sender and receiver put the same together, and every byte comes where it belongs."""

import numpy as np
import pytest

from refimpl.transport.packed import SMALL, buffers, pack, unpack

SIZES = (3, SMALL // 8 - 3, 1, SMALL // 8, SMALL // 4, 5, 7)  # of float64: exactly full, over, alone


def test_what_is_packed_comes_apart_again():
    sent = [(peer, np.full((size, 1), 100 * peer + i)) for i, size in enumerate(SIZES) for peer in (2, 5)]
    sent.append((2, np.arange(4, dtype=np.float32)))  # of another kind
    kept = [(peer, np.empty_like(array)) for peer, array in sent]
    leaving, (arriving, packed) = pack(sent), buffers(kept)
    assert [(peer, array.nbytes) for peer, array in leaving] == [(peer, array.nbytes) for peer, array in arriving]
    for (_, array), (_, room) in zip(leaving, arriving):
        room.view(np.uint8).ravel()[:] = array.view(np.uint8).ravel()
    unpack(packed)
    assert all((a == b).all() and a.dtype == b.dtype for (_, a), (_, b) in zip(sent, kept))


def test_as_many_as_fit_travel_together():
    alone = [np.zeros(size) for size in SIZES]
    assert [array.nbytes // 8 for _, array in pack([(1, a) for a in alone])] == \
        [SMALL // 8, 1, SMALL // 8, SMALL // 4, 12]
    (_, whole), = pack([(1, alone[0])])
    assert whole is alone[0]  # no copy of one that travels alone


def test_an_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        buffers([(0, np.zeros((4, 4))[:, :2]), (0, np.zeros(1))])
