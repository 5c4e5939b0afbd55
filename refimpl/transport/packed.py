"""Small arrays on their way to one rank travel in one message: each message costs latency and a core's time.

    to rank 3:  |a..|  |b.|  |c.............|     ->     |a..b.|  |c.............|

Sender and receiver list the arrays of a pair in the same order. So both pack the same ones, without any agreement.
"""

import numpy as np

SMALL = 1 << 14  # bytes put together at most: copying them takes less than a message of its own would


def pack(messages) -> list[tuple[int, np.ndarray]]:
    """Return what is to be sent: (peer, array). messages: list of (peer, contiguous array). Local."""
    return [(peer, arrays[0] if len(arrays) == 1 else np.concatenate([_bytes(array) for array in arrays]))
            for peer, arrays in _groups(messages)]


def buffers(messages) -> tuple[list[tuple[int, np.ndarray]], list]:
    """Return ((peer, array) to receive into, what ``unpack`` wants afterwards). messages: as for ``pack``. Local."""
    receives, packed = [], []
    for peer, arrays in _groups(messages):
        if len(arrays) == 1:
            receives.append((peer, arrays[0]))
            continue
        parts = [_bytes(array) for array in arrays]
        receives.append((peer, np.empty(sum(map(len, parts)), np.uint8)))
        packed.append((receives[-1][1], parts))
    return receives, packed


def unpack(packed):
    """Put what came packed where it was wanted. Local."""
    for buffer, parts in packed:
        first = 0
        for part in parts:
            part[:] = buffer[first:first + len(part)]
            first += len(part)


def _groups(messages) -> list[tuple[int, list]]:
    """Return [(peer, arrays)]: neighbours among the arrays of a peer that are SMALL together, or one array."""
    found, filling = [], {}
    for peer, array in messages:
        group, size = filling.get(peer, (None, 0))
        if group is None or size + array.nbytes > SMALL:
            group, size = [], 0
            found.append((peer, group))
        group.append(array)
        filling[peer] = group, size + array.nbytes
    return found


def _bytes(array):
    """Return a view of an array's bytes. ValueError unless it is contiguous."""
    return np.frombuffer(array, np.uint8)
